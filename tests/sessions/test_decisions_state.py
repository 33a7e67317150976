"""The effect of any delta on every scope: merged, limited in size and rebuilt, without a store."""

from typing import Any, cast

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hivemem_contracts.errors import IllegalTransition, InvalidRequest, NotFound, RevisionConflict, TooLarge
from hivemem_contracts.limits import STATE_BYTES
from hivemem_contracts.sessions.requests import SetState
from hivemem_runtime.ledger.port import Head
from hivemem_sessions.decisions import change_status, fork_session, set_state
from hivemem_sessions.decisions.state import own_state_bytes
from hivemem_sessions.entities import SCOPE, SESSION, SessionHead, State, StateChange, evolve_session, merge

from .heads import DictHeads

PREFIXES = ("", "session:", "temp:", "user:", "app:", "project:")
keys = st.builds(str.__add__, st.sampled_from(PREFIXES), st.sampled_from(["a", "b", "ключ", '"\\', "🐝" * 5]))
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
deltas = st.dictionaries(keys, json_values, max_size=6)


def _change(delta: State, nulls: list[str]) -> StateChange:
    return StateChange(delta, [key for key in nulls if key not in delta])


changes = st.builds(_change, deltas, st.lists(keys, max_size=3, unique=True))


def encoded_size(state: State) -> int:
    return len(orjson.dumps(state)) - 1 if state else 0


def merged(state: State, change: StateChange) -> State:
    """Merge a change in the simplest way that keeps the promise."""
    result = dict(state)
    for key, value in change.delta.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = value
    return result | dict.fromkeys(change.nulls)


def part(delta: State, prefix: str) -> State:
    return {key: value for key, value in delta.items() if key.startswith(prefix)}


def after(given_changes: list[StateChange]) -> DictHeads:
    """Return the heads of a session that was created with the first change and got the others with its events."""
    heads = DictHeads()
    heads.create(project_id="p", initial_state=given_changes[0].delta, state_nulls=given_changes[0].nulls)
    for change in given_changes[1:]:
        heads.append(state_delta=change.delta, state_nulls=change.nulls)
    return heads


@given(st.lists(changes, min_size=1, max_size=8))
def test_state_is_the_sum_of_its_changes_and_its_size_is_its_encoding(given_changes: list[StateChange]) -> None:
    heads = after(given_changes)
    expected: State = {}
    for change in given_changes:
        expected = merged(expected, change)
    shared: State = {}
    for prefix, id in (("user:", "user:user"), ("app:", "app:app"), ("project:", "project:p")):
        wanted = part(expected, prefix)
        shared |= wanted
        if any(key.startswith(prefix) for change in given_changes for key in change.keys):
            assert heads.scope(id).state == wanted
            assert heads.scope(id).state_bytes == encoded_size(wanted)
        else:
            assert heads(SCOPE, id) is None
    session = heads.session()
    assert session.state == {key: value for key, value in expected.items() if key not in shared}
    assert session.state_bytes == encoded_size(session.state)


@given(st.lists(changes, min_size=1, max_size=6), st.booleans())
def test_a_head_rebuilt_from_its_records_is_the_head(given_changes: list[StateChange], ended: bool) -> None:
    heads = after(given_changes)
    if ended:
        heads.apply(change_status(heads, "s1", "terminated"))
    rebuilt: SessionHead | None = None
    for stamp, record in heads.records["session", "s1"]:
        rebuilt = evolve_session(rebuilt, record, stamp)
    assert rebuilt == heads.session()
    assert heads.session().state_bytes == encoded_size(heads.session().state)


@given(changes, changes)
def test_null_in_a_delta_deletes_and_among_the_nulls_is_a_value(first: StateChange, change: StateChange) -> None:
    before = merged({}, first)
    assert merge(before, change) == merged(before, change)


@given(changes)
def test_a_fork_counts_the_bytes_of_nulls(change: StateChange) -> None:
    heads = after([change])
    heads.apply(fork_session(heads, "s1", cast("Head[SessionHead]", heads(SESSION, "s1")), "s2"))
    assert heads.session("s2").state_bytes == encoded_size(heads.session("s2").state)


@given(st.dictionaries(keys.filter(lambda key: key.startswith(("user:", "app:"))), json_values, min_size=1, max_size=3))
def test_shared_keys_leave_the_session_as_it_was(delta: State) -> None:
    heads = DictHeads()
    heads.create(initial_state={"a": 1})
    before = heads.session().state
    heads.append(state_delta=delta)
    assert heads.session().state == before
    assert heads.session().state_bytes == encoded_size(before)


def test_setting_a_shared_key_touches_its_scope_alone() -> None:
    heads = DictHeads()
    heads.create()
    decision = set_state(heads, SetState(session_id="s1", key="user:x", value=1, expect_revision=0))
    assert [(append.entity, append.id) for append in decision] == [(SCOPE, "user:user")]
    heads.apply(decision)
    with pytest.raises(RevisionConflict) as refused:
        set_state(heads, SetState(session_id="s1", key="user:x", value=1, expect_revision=0))
    assert refused.value.context == {"expected": 0, "actual": 1}


def test_setting_an_own_key_is_conditional_on_the_session() -> None:
    heads = DictHeads()
    heads.create()
    heads.apply(set_state(heads, SetState(session_id="s1", key="x", value=1, expect_revision=1)))
    with pytest.raises(RevisionConflict):
        set_state(heads, SetState(session_id="s1", key="x", value=1, expect_revision=1))
    assert heads.session().state == {"x": 1}


def test_project_keys_need_a_project() -> None:
    heads = DictHeads()
    heads.create()
    with pytest.raises(InvalidRequest) as refused:
        set_state(heads, SetState(session_id="s1", key="project:x", value=None))
    assert refused.value.context["field"] == "key"
    with pytest.raises(InvalidRequest) as refused:
        heads.append(state_delta={"user:y": 1, "project:x": 1})
    assert refused.value.context["field"] == "state_delta.project:x"


def test_state_is_written_to_living_sessions_only() -> None:
    heads = DictHeads()
    heads.create()
    with pytest.raises(NotFound):
        set_state(heads, SetState(session_id="nobody", key="x", value=1))
    heads.apply(change_status(heads, "s1", "terminated"))
    with pytest.raises(IllegalTransition):
        set_state(heads, SetState(session_id="s1", key="x", value=1))
    heads.erase(SESSION, "s1")
    with pytest.raises(NotFound):
        set_state(heads, SetState(session_id="s1", key="x", value=1))


@pytest.mark.parametrize("over", [0, 1])
def test_a_scope_holds_exactly_its_limit(over: int) -> None:
    empty = SessionHead("a", "u", None, "created", {}, 0, {}, 0, 0, 0)
    change = StateChange({"k": "x" * (STATE_BYTES - encoded_size({"k": ""}) + over)})
    if not over:
        assert own_state_bytes(empty, change, "state_delta") == STATE_BYTES
        return
    with pytest.raises(TooLarge) as refused:
        own_state_bytes(empty, change, "state_delta")
    assert refused.value.context == {"field": "state_delta", "limit": STATE_BYTES, "actual": STATE_BYTES + 1}


def test_a_delta_may_take_as_much_as_it_gives() -> None:
    heads = DictHeads()
    half = "x" * (STATE_BYTES // 2 - 20)
    heads.create(initial_state={"a": half, "b": half})
    heads.append(state_delta={"a": None, "c": half})
    assert set(heads.session().state) == {"b", "c"}
