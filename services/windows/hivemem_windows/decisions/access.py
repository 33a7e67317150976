"""Who may write to a window: the agents of its resource, in a request that is not for reading only."""

from hivemem_contracts.errors import Forbidden
from hivemem_contracts.windows.models import Mode, WindowResource


def require_writer(resource: WindowResource, agent: str, mode: Mode) -> None:
    """Raise `Forbidden` for a write in the mode `read-only`, or by an agent that may only read."""
    if mode == "read-only":
        raise Forbidden("mode: read-only: this operation writes", field="mode")
    if resource.writers is not None and not any(matches(pattern, agent) for pattern in resource.writers):
        raise Forbidden(f"resource {resource.id!r}: agent {agent!r} is none of its writers", field="resource")


def matches(pattern: str, name: str) -> bool:
    """Return whether a name matches a pattern, where each `*` matches any text."""
    first, *rest = pattern.split("*")
    if not rest:
        return name == pattern
    place = len(first)
    if not name.startswith(first):
        return False
    for part in rest[:-1]:
        found = name.find(part, place)
        if found < 0:
            return False
        place = found + len(part)
    return len(name) - place >= len(rest[-1]) and name.endswith(rest[-1])
