"""The rules for references to large values. Each names a file of the same session, so a shared scope has none."""

from collections.abc import Mapping
from typing import Any

from hivemem_contracts.artifacts.urls import parse_url
from hivemem_contracts.errors import InvalidRequest
from hivemem_contracts.large_values import is_reference, reference_in, require_own
from hivemem_contracts.sessions.requests import AppendEvent
from hivemem_sessions.entities import State, is_shared


def check_event_values(tenant: str, command: AppendEvent) -> None:
    require_own(tenant, command.session_id, command.event.content, "event.content")
    check_state_values(tenant, command.session_id, command.state_delta or {}, "state_delta")


def check_state_values(tenant: str, session_id: str, delta: Mapping[str, Any], field: str) -> None:
    """Raise `InvalidRequest` for a wrong reference among the values of a delta; `field` is the path of the delta."""
    for key, value in delta.items():
        check_state_value(tenant, session_id, key, value, f"{field}.{key}")


def check_state_value(tenant: str, session_id: str, key: str, value: object, field: str) -> None:
    if is_reference(value) and is_shared(key):
        raise InvalidRequest(f"{field}: a large value belongs to one session, and this key to several", field=field)
    require_own(tenant, session_id, value, field)


def owners_of_values(state: State) -> list[str]:
    """Return the sessions whose files are the large values of a state."""
    found = (reference_in(value) for value in state.values())
    return list(dict.fromkeys(parse_url(reference.url).session_id for reference in found if reference is not None))
