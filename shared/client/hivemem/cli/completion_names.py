"""The values that completion offers: choices of a field, and names that the fleet knows."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, get_args, get_origin

from hivemem.cli.fields import choices_of
from hivemem_contracts.catalog import SERVICES
from hivemem_contracts.limits import LIST_MAXIMUM

if TYPE_CHECKING:
    from hivemem.hive import Hive

Candidates = list[tuple[str, str]]
"""Values with their descriptions."""
ROOTS: Final = ("user", "app", "project", "session", "temp")


def choices(path: list[str], parameter: Any, incomplete: str) -> list[str]:
    """Return the values that a parameter is limited to, if it is; a namespace is in its first segment."""
    if NAMES.get(parameter.name) is _namespaces and ":" not in incomplete:
        return [f"{root}:" for root in ROOTS]
    annotation = parameter.type_descriptor.annotation
    if get_origin(annotation) is Literal:
        return [str(choice) for choice in get_args(annotation)]
    name = ".".join(path).replace("-", "_")
    for operation in (operation for service in SERVICES for operation in service if operation.full_name == name):
        field = operation.request.model_fields.get(parameter.name)
        return [] if field is None else choices_of(field)
    return []


async def _sessions(hive: "Hive", given: Mapping[str, str], incomplete: str) -> Candidates:
    del given, incomplete
    page = await hive.sessions.list(limit=LIST_MAXIMUM)
    return [(session.session_id, f"{session.app_name} of {session.user_id}") for session in page.items]


async def _namespaces(hive: "Hive", given: Mapping[str, str], incomplete: str) -> Candidates:
    del given
    page = await hive.memory.namespaces(prefix=incomplete.rpartition(":")[0], limit=LIST_MAXIMUM)
    return [(namespace, "") for namespace in page.items]


async def _keys(hive: "Hive", given: Mapping[str, str], incomplete: str) -> Candidates:
    del incomplete
    if "namespace" not in given:
        return []
    page = await hive.memory.list(prefix=given["namespace"], limit=LIST_MAXIMUM)
    return [(memory.key, "") for memory in page.items if memory.namespace == given["namespace"]]


async def _files(hive: "Hive", given: Mapping[str, str], incomplete: str) -> Candidates:
    if "session_id" not in given:
        return []
    narrowed = {"prefix": incomplete} if incomplete else {}
    page = await hive.artifacts.list(session_id=given["session_id"], limit=LIST_MAXIMUM, **narrowed)
    return [(artifact.name, artifact.content_type) for artifact in page.items]


async def _dead_letters(hive: "Hive", given: Mapping[str, str], incomplete: str) -> Candidates:
    del given, incomplete
    page = await hive.dead.list(LIST_MAXIMUM)
    return [(str(letter.sequence), f"{letter.operation}: {letter.error.name}") for letter in page.items]


NAMES: Final[dict[str, "Callable[[Hive, Mapping[str, str], str], Awaitable[Candidates]]"]] = {
    "session_id": _sessions,
    "session_ids": _sessions,
    "namespace": _namespaces,
    "namespace_prefix": _namespaces,
    "prefix": _namespaces,
    "into": _namespaces,
    "key": _keys,
    "name": _files,
    "sequence": _dead_letters,
}
"""Where the names for each parameter come from."""
