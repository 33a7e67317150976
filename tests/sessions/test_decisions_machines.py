"""The rules of state machines: random walks against a simple model, guards, invalid definitions."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hivemem_contracts.errors import IllegalTransition, InvalidRequest, NotFound, RevisionConflict, TooLarge
from hivemem_contracts.limits import EXPRESSION_BYTES, EXPRESSION_STEPS
from hivemem_contracts.sessions.models import Machine, Transition
from hivemem_contracts.sessions.requests import PutMachine
from hivemem_runtime.expressions.budget import Meter
from hivemem_sessions.decisions import put_machine
from hivemem_sessions.decisions.machines import checked_definition, passes, unreachable_states
from hivemem_sessions.entities import MACHINE

from .heads import DictHeads

STATES = ("a", "b", "c")
EVENTS = ("x", "y", "z", "other")
GUARDS = (None, None, "state.n > 1", "state.n < 3", "state.missing")
arrows = st.tuples(
    st.sampled_from(STATES), st.sampled_from(EVENTS[:3]), st.sampled_from(STATES), st.sampled_from(GUARDS)
).map(lambda arrow: Transition(source=arrow[0], event=arrow[1], target=arrow[2], when=arrow[3]))
machines = st.tuples(st.sampled_from(STATES), st.lists(arrows, max_size=8), st.booleans()).map(
    lambda parts: Machine(initial=parts[0], states=list(STATES), transitions=parts[1], open=parts[2])
)


def reference(machine: Machine, at: str, event: str, n: int) -> str | None:
    """Return the state to which an event leads, or None if it is refused."""
    if machine.open and event not in {arrow.event for arrow in machine.transitions}:
        return at
    holds = {None: True, "state.n > 1": n > 1, "state.n < 3": n < 3, "state.missing": False}
    for arrow in machine.transitions:
        if arrow.source == at and arrow.event == event and holds[arrow.when]:
            return arrow.target
    return None


def test_states_that_no_transition_leads_to_are_reported() -> None:
    arrows = [Transition(source=source, event="x", target=target) for source, target in ("ab", "ba", "cd")]
    machine = Machine(initial="a", states=["a", "b", "c", "d"], transitions=arrows)
    assert unreachable_states(machine) == ["c", "d"]


@given(machines, st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(0, 4)), max_size=10))
def test_any_walk_agrees_with_a_plain_reference(machine: Machine, walk: list[tuple[str, int]]) -> None:
    heads = DictHeads()
    heads.create(machine=machine.model_dump(by_alias=True), initial_state={"n": 0})
    at, n = machine.initial, 0
    for event, following in walk:
        expected = reference(machine, at, event, n)
        if expected is None:
            with pytest.raises(IllegalTransition) as refused:
                heads.append(type=event, state_delta={"n": following})
            allowed = {arrow.event for arrow in machine.transitions if arrow.source == at}
            assert refused.value.context["allowed"] == sorted(allowed)
            assert refused.value.context["state"] == at
        else:
            heads.append(type=event, state_delta={"n": following})
            at, n = expected, following
        kept = heads.session().machine
        assert kept is not None
        assert kept["state"] == at


def event_of(**fields: Any) -> dict[str, Any]:
    return {"event_id": "e", "type": "t", "author": "a", "content": None, "metadata": {}, "parent_id": None, **fields}


@pytest.mark.parametrize(
    ("expression", "holds"),
    [
        ("true", True),
        ("false", False),
        ("1", False),
        ("'true'", False),
        ("null", False),
        ("state.n == 5", True),
        ("state.n + 0.5 > 5.0", False),
        ("state['user name'] == 'é'", True),
        ("has(state.missing)", False),
        ("state.missing == 1", False),
        ("state.n / 0 == 1", False),
        ("state.list.exists(item, item > 2)", True),
        ("state.deep.very == null", True),
        ("event.type == 't' && event.author in ['a', 'b']", True),
        ("event.content.score > 1", False),
        ("size(event.metadata) == 0", True),
        ("state.big == 9223372036854775807", True),
    ],
)
def test_guards(expression: str, holds: bool) -> None:
    state: dict[str, Any] = {"n": 5, "user name": "é", "list": [1, 2, 3], "deep": {"very": None}, "big": 2**63 - 1}
    assert passes(expression, state, event_of(), Meter()) is holds


def guarded(*guards: str) -> dict[str, Any]:
    transitions = [Transition(source="a", event="go", target="b", when=guard) for guard in guards]
    return Machine(initial="a", states=["a", "b"], transitions=transitions).model_dump(by_alias=True)


EXPLODES = "state.many.map(x, state.s + state.s + state.s).size() > 0"


def test_a_guard_over_its_budget_is_named_with_the_limit() -> None:
    heads = DictHeads()
    state = {"many": list(range(9_000)), "s": "x" * 250_000}
    heads.create(machine=guarded("false", EXPLODES, "true"), initial_state=state)
    with pytest.raises(TooLarge) as refused:
        heads.append(type="go")
    context = refused.value.context
    assert context.pop("actual") > EXPRESSION_BYTES
    assert context == {
        "field": "machine.transitions.1.when",
        "limit": EXPRESSION_BYTES,
        "unit": "bytes",
        "from": "a",
        "event": "go",
        "to": "b",
        "when": EXPLODES,
    }
    assert heads.session().event_count == 0


def test_the_guards_of_one_event_share_a_budget() -> None:
    heads = DictHeads()
    guard = "state.many.all(x, x < 0 || true) && false"
    heads.create(machine=guarded(*[guard] * 20), initial_state={"many": list(range(2_000))})
    with pytest.raises(TooLarge) as refused:
        heads.append(type="go")
    assert refused.value.context["limit"] == EXPRESSION_STEPS
    again = heads.session()
    with pytest.raises(TooLarge) as repeated:
        heads.append(type="go")
    assert repeated.value.context == refused.value.context
    assert heads.session() == again


def test_a_guard_that_is_over_its_budget_on_any_input_is_refused_with_its_definition() -> None:
    tens = "[0,1,2,3,4,5,6,7,8,9]"
    guard = f"{tens}.all(a, {tens}.all(b, {tens}.all(c, {tens}.all(d, {tens}.all(e, true)))))"
    with pytest.raises(TooLarge) as refused:
        checked_definition(Machine.model_validate(guarded("true", guard)), "definition")
    assert refused.value.context["field"] == "definition.transitions.1.when"
    assert refused.value.context["limit"] == EXPRESSION_STEPS
    checked_definition(Machine.model_validate(guarded(EXPLODES)), "definition")
    thousand = f"{tens}.all(a, {tens}.all(b, {tens}.all(c, true)))"
    with pytest.raises(TooLarge):
        checked_definition(Machine.model_validate(guarded(*[thousand] * 100)), "definition")


any_json: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(any_json, any_json)
def test_a_guard_bears_any_state_and_event(value: Any, content: Any) -> None:
    for expression in (
        "state.x > 1",
        "state.x.y == event.content",
        "event.content.exists(i, i == state.x)",
        "size(state.x) > 0",
    ):
        assert passes(expression, {"x": value}, event_of(content=content), Meter()) in (True, False)


def test_versions_of_a_machine_are_conditional() -> None:
    heads = DictHeads()
    definition = Machine(initial="a", states=["a"], transitions=[])
    heads.apply(put_machine(heads, PutMachine(name="m", definition=definition, expect_version=0)))
    with pytest.raises(RevisionConflict) as refused:
        put_machine(heads, PutMachine(name="m", definition=definition, expect_version=0))
    assert refused.value.context == {"expected": 0, "actual": 1}
    heads.apply(put_machine(heads, PutMachine(name="m", definition=definition)))
    head = heads(MACHINE, "m")
    assert head is not None
    assert head.version == 2


def test_a_session_keeps_the_version_that_it_began_with() -> None:
    heads = DictHeads()
    for initial in STATES:
        definition = Machine(initial=initial, states=list(STATES), transitions=[])
        heads.apply(put_machine(heads, PutMachine(name="m", definition=definition)))
        heads.create(f"s-{initial}", machine="m")
    kept = [heads.session(f"s-{initial}").machine for initial in STATES]
    assert [(machine["version"], machine["state"]) for machine in kept if machine] == [(1, "a"), (2, "b"), (3, "c")]
    with pytest.raises(NotFound):
        heads.create("s", machine="unknown")


@pytest.mark.parametrize(
    ("definition", "field"),
    [
        (Machine(initial="z", states=["a"], transitions=[]), "initial"),
        (
            Machine(initial="a", states=["a"], transitions=[Transition(source="z", event="e", target="a")]),
            "transitions.0.from",
        ),
        (
            Machine(initial="a", states=["a"], transitions=[Transition(source="a", event="e", target="z")]),
            "transitions.0.to",
        ),
        (
            Machine(initial="a", states=["a"], transitions=[Transition(source="a", event="e", target="a", when="(")]),
            "transitions.0.when",
        ),
    ],
)
def test_what_makes_no_sense_is_named_by_its_place(definition: Machine, field: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        checked_definition(definition, "machine")
    assert refused.value.context["field"] == f"machine.{field}"
    assert refused.value.detail.startswith(f"machine.{field}")


def test_a_definition_has_a_limit() -> None:
    states = [f"{number}{'x' * 250}" for number in range(200)]
    with pytest.raises(TooLarge):
        checked_definition(Machine(initial=states[0], states=states, transitions=[]), "machine")
