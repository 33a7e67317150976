"""The rules of state machines: valid definitions, and the events that a machine accepts."""

from typing import Any, Final

import orjson

from hivemem_contracts.errors import IllegalTransition, InvalidRequest, NotFound, TooLarge
from hivemem_contracts.limits import MACHINE_BYTES
from hivemem_contracts.sessions.models import Machine
from hivemem_contracts.sessions.requests import PutMachine
from hivemem_runtime.expressions.budget import BudgetExceeded, EvaluationFailed, Meter
from hivemem_runtime.expressions.evaluation import compiled
from hivemem_runtime.ledger.port import Append, Decision, Heads
from hivemem_sessions.decisions.preconditions import expect
from hivemem_sessions.entities import MACHINE, MachineRecord, SessionHead

_VARIABLES: Final = ("state", "event")


def put_machine(heads: Heads, command: PutMachine) -> Decision:
    """Write a new version of a definition. Running sessions keep the version they started with."""
    definition = checked_definition(command.definition, "definition")
    head = heads(MACHINE, command.name)
    expect(f"machine {command.name!r}", command.expect_version, head.version if head else 0)
    return [Append(MACHINE, command.name, MachineRecord(definition))]


def starting_machine(heads: Heads, machine: str | Machine) -> dict[str, Any]:
    """Return the machine of a new session: a copy of the current definition, and its initial state."""
    if isinstance(machine, Machine):
        definition = checked_definition(machine, "machine")
        return {"name": None, "version": None, "definition": definition, "state": definition["initial"]}
    head = heads(MACHINE, machine)
    if head is None or head.value is None:
        raise NotFound(f"machine {machine!r} does not exist: `machine_put` stores one", machine=machine)
    definition = head.value.definition
    return {"name": machine, "version": head.version, "definition": definition, "state": definition["initial"]}


def checked_definition(machine: Machine, field: str) -> dict[str, Any]:
    """Return the definition as plain JSON. Raises `InvalidRequest` if its states, events or guards do not fit together.

    `field` is the path of the definition in the request, for error texts.
    """
    definition = machine.model_dump(mode="json", by_alias=True)
    states = set(machine.states)
    if machine.initial not in states:
        raise _wrong(f"{field}.initial", f"{machine.initial!r} is not one of the states")
    meter = Meter()
    for place, transition in enumerate(machine.transitions):
        path = f"{field}.transitions.{place}"
        for end, state in (("from", transition.source), ("to", transition.target)):
            if state not in states:
                raise _wrong(f"{path}.{end}", f"{state!r} is not one of the states")
        if transition.when is not None:
            _check_guard(f"{path}.when", transition.when, meter)
    size = len(orjson.dumps(definition))
    if size > MACHINE_BYTES:
        raise TooLarge(f"{field}: {size} bytes, {MACHINE_BYTES} at most", field=field, limit=MACHINE_BYTES, actual=size)
    return definition


def unreachable_states(machine: Machine) -> list[str]:
    """Return the states that no transitions lead to from the initial one, in the order of the definition."""
    reached, new = {machine.initial}, [machine.initial]
    while new:
        targets = {transition.target for transition in machine.transitions if transition.source in new}
        new = list(targets - reached)
        reached |= targets
    return [state for state in machine.states if state not in reached]


def _check_guard(field: str, guard: str, meter: Meter) -> None:
    """Refuse a guard that is invalid or exceeds the budget for any input. All guards share the meter."""
    try:
        excess = compiled(guard, _VARIABLES).excess(meter)
    except ValueError as error:
        raise _wrong(field, str(error)) from error
    if excess is not None:
        raise TooLarge(
            f"{field}: with the guards before it, takes over {excess.limit} {excess.unit} whatever the state is",
            field=field,
            limit=excess.limit,
            actual=excess.actual,
            unit=excess.unit,
        )


def _wrong(field: str, why: str) -> InvalidRequest:
    return InvalidRequest(f"{field}: {why}", field=field)


def move_machine(session_id: str, session: SessionHead, event: dict[str, Any]) -> str | None:
    """Return the machine's next state, or None if there is no machine or the event causes no transition."""
    machine = session.machine
    if machine is None:
        return None
    definition = machine["definition"]
    transitions = definition["transitions"]
    if definition["open"] and all(arrow["event"] != event["type"] for arrow in transitions):
        return None
    guarded: list[str] = []
    meter = Meter()
    for place, arrow in enumerate(transitions):
        if arrow["from"] != machine["state"] or arrow["event"] != event["type"]:
            continue
        try:
            if arrow["when"] is None or passes(arrow["when"], session.state, event, meter):
                return str(arrow["to"])
        except BudgetExceeded as excess:
            raise _too_costly(session_id, place, arrow, excess) from excess
        guarded.append(arrow["when"])
    allowed = sorted({arrow["event"] for arrow in transitions if arrow["from"] == machine["state"]})
    why = f"its guard {guarded[0]!r} does not hold" if guarded else f"it allows {', '.join(allowed) or 'nothing'}"
    raise IllegalTransition(
        f"session {session_id!r} is in state {machine['state']!r}: event {event['type']!r} is refused, {why}",
        state=machine["state"],
        event=event["type"],
        allowed=allowed,
        guards=guarded,
    )


def _too_costly(session_id: str, place: int, arrow: dict[str, Any], excess: BudgetExceeded) -> TooLarge:
    """Return the error for the guard that exceeded the limit. Guards evaluated before it count towards the limit."""
    field = f"machine.transitions.{place}.when"
    return TooLarge(
        f"session {session_id!r}: {field}, of {arrow['event']!r} from {arrow['from']!r} to {arrow['to']!r}, "
        f"takes over {excess.limit} {excess.unit}: {arrow['when']!r}",
        field=field,
        limit=excess.limit,
        actual=excess.actual,
        unit=excess.unit,
        **arrow,
    )


def passes(guard: str, state: dict[str, Any], event: dict[str, Any], meter: Meter) -> bool:
    """Return whether a guard holds. A guard that cannot be evaluated, for example because of a missing key, does not
    hold.

    Raises `BudgetExceeded` instead of returning False for a guard that takes too long, and always for the same input.
    """
    try:
        return compiled(guard, _VARIABLES).evaluate({"state": state, "event": event}, meter) is True
    except (EvaluationFailed, ValueError):  # a guard stored by an older version may be invalid now
        return False
