"""The form of a change on the wire."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from hivemem_contracts.catalog import CHANGES
from hivemem_contracts.changes import Change, change_headers, change_id, traceparent_of
from hivemem_contracts.sessions import changes as sessions
from hivemem_contracts.sessions.changes import AppChanged, ScopeChanged, SessionUpdated, StateChanged, StatusChanged
from hivemem_contracts.sessions.models import Event, Session
from hivemem_contracts.subjects import Address

DECLARED = {
    "session.created": Session,
    "session.updated": SessionUpdated,
    "session.status_changed": StatusChanged,
    "session.state_changed": StateChanged,
    "session.forked": Session,
    "session.archived": StatusChanged,
    "session.deleted": None,
    "state.changed": ScopeChanged,
    "event.appended": Event,
    "app.changed": AppChanged,
}
ADDRESSES = {"session": ("session_id",), "event": ("session_id",), "state": ("scope", "scope_id"), "app": ("app_name",)}
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

few = st.sampled_from(["", "a", "ab", "a.b", "a:b", ":", "%", "1"])
addresses = st.builds(Address, st.lists(few, min_size=1, max_size=3).map(tuple), st.none() | few)
keys = st.tuples(
    few, st.sampled_from(sorted({kind.entity for kind in CHANGES})), addresses, st.integers(min_value=1, max_value=20)
)


def change_of(operation: str = "appended") -> Change:
    return Change(
        entity="event",
        operation=operation,
        tenant="acme",
        namespace="s.1",
        version=7,
        previous_version=6,
        value={"sequence": 7},
        actor="planner",
        cause="m-1",
        at=datetime(2026, 1, 31, 9, 30, 0, 1, tzinfo=UTC),
    )


def test_the_kinds_of_change_of_sessions_are_those_of_the_contract() -> None:
    assert {kind.full_name: kind.value for kind in sessions.CHANGES} == DECLARED
    assert len(sessions.CHANGES) == len(DECLARED)
    assert {kind.entity: kind.address for kind in sessions.CHANGES} == ADDRESSES


def test_a_kind_of_change_is_declared_once_and_stands_at_one_address() -> None:
    assert len({kind.full_name for kind in CHANGES}) == len(CHANGES)
    assert len({(kind.entity, kind.address, kind.keyed) for kind in CHANGES}) == len({kind.entity for kind in CHANGES})
    assert all(kind.summary.endswith(".") for kind in CHANGES)
    assert all(kind.keyed for kind in CHANGES if kind.key_optional)


def test_a_change_is_a_cloud_event_in_binary_mode() -> None:
    assert change_headers(change_of(), "s%2E1", TRACE) == {
        "ce-specversion": "1.0",
        "ce-id": "event:acme:s%252E1:7",
        "ce-type": "hivemem.event.appended",
        "ce-source": "hivemem/event",
        "ce-subject": "s%252E1",
        "ce-time": "2026-01-31T09:30:00.000001Z",
        "content-type": "application/json",
        "traceparent": TRACE,
    }


def test_a_trace_goes_along_where_there_is_one() -> None:
    assert "traceparent" not in change_headers(change_of(), "s")
    assert traceparent_of(change_headers(change_of(), "s", TRACE)) == TRACE
    assert traceparent_of({}) is None
    assert traceparent_of(None) is None


def test_a_change_comes_back_from_its_body_and_may_have_grown() -> None:
    change = change_of()
    assert Change.model_validate_json(change.model_dump_json()) == change
    assert Change.model_validate(change.model_dump(mode="json") | {"mood": "good"}) == change


@given(keys, keys)
def test_versions_of_different_addresses_never_share_an_id(
    one: tuple[str, str, Address, int], other: tuple[str, str, Address, int]
) -> None:
    def identity(key: tuple[str, str, Address, int]) -> str:
        tenant, entity, address, version = key
        return change_id(tenant, entity, address.tokens, version)

    assert (identity(one) == identity(other)) == (one == other)
