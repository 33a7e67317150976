"""State machines: definitions that make sense, and which events they let pass."""

from functools import lru_cache
from typing import Any

import orjson
from cel_expr_python import cel

from hivemem_contracts.errors import IllegalTransition, InvalidRequest, NotFound, TooLarge
from hivemem_contracts.limits import MACHINE_BYTES
from hivemem_contracts.sessions.models import Machine
from hivemem_contracts.sessions.requests import PutMachine
from hivemem_runtime.ledger.port import Append, Decision, Heads
from hivemem_sessions.decisions.standing import expect
from hivemem_sessions.entities import MACHINE, MachineRecord, SessionHead

_ENVIRONMENT = cel.NewEnv(variables={"state": cel.Type.DYN, "event": cel.Type.DYN})


def put_machine(heads: Heads, command: PutMachine) -> Decision:
    """A new version of a definition; sessions that run on an older one stay with it."""
    definition = checked_definition(command.definition, "definition")
    head = heads(MACHINE, command.name)
    expect(f"machine {command.name!r}", command.expect_version, head.version if head else 0)
    return [Append(MACHINE, command.name, MachineRecord(definition))]


def starting_machine(heads: Heads, machine: str | Machine) -> dict[str, Any]:
    """What a new session keeps of its machine: the definition as it is now, and where it starts."""
    if isinstance(machine, Machine):
        definition = checked_definition(machine, "machine")
        return {"name": None, "version": None, "definition": definition, "state": definition["initial"]}
    head = heads(MACHINE, machine)
    if head is None or head.value is None:
        raise NotFound(f"machine {machine!r} does not exist", machine=machine)
    definition = head.value.definition
    return {"name": machine, "version": head.version, "definition": definition, "state": definition["initial"]}


def checked_definition(machine: Machine, field: str) -> dict[str, Any]:
    """The definition as plain JSON; refuses one whose states, events or guards do not fit together.

    `field` is where it stands in the body, so that what is wrong is named by its path there.
    """
    definition = machine.model_dump(mode="json", by_alias=True)
    states = set(machine.states)
    if machine.initial not in states:
        raise _wrong(f"{field}.initial", f"{machine.initial!r} is not one of the states")
    for place, transition in enumerate(machine.transitions):
        path = f"{field}.transitions.{place}"
        for end, state in (("from", transition.source), ("to", transition.target)):
            if state not in states:
                raise _wrong(f"{path}.{end}", f"{state!r} is not one of the states")
        if transition.when is not None:
            try:
                compiled(transition.when)
            except ValueError as error:
                raise _wrong(f"{path}.when", str(error)) from error
    size = len(orjson.dumps(definition))
    if size > MACHINE_BYTES:
        raise TooLarge(f"{field}: {size} bytes, {MACHINE_BYTES} at most", field=field, limit=MACHINE_BYTES, actual=size)
    return definition


def _wrong(field: str, why: str) -> InvalidRequest:
    return InvalidRequest(f"{field}: {why}", field=field)


def move_machine(session_id: str, session: SessionHead, event: dict[str, Any]) -> str | None:
    """Where an event moves the session's machine to; None where there is no machine or the event moves nothing."""
    machine = session.machine
    if machine is None:
        return None
    definition = machine["definition"]
    transitions = definition["transitions"]
    if definition["open"] and all(arrow["event"] != event["type"] for arrow in transitions):
        return None
    leaving = [arrow for arrow in transitions if arrow["from"] == machine["state"]]
    guarded: list[str] = []
    for arrow in leaving:
        if arrow["event"] != event["type"]:
            continue
        if arrow["when"] is None or passes(arrow["when"], session.state, event):
            return str(arrow["to"])
        guarded.append(arrow["when"])
    allowed = sorted({arrow["event"] for arrow in leaving})
    why = f"its guard {guarded[0]!r} does not hold" if guarded else f"it allows {', '.join(allowed) or 'nothing'}"
    raise IllegalTransition(
        f"session {session_id!r} is in state {machine['state']!r}: event {event['type']!r} is refused, {why}",
        state=machine["state"],
        event=event["type"],
        allowed=allowed,
        guards=guarded,
    )


@lru_cache(maxsize=1024)
def compiled(expression: str) -> cel.Expression:
    """A guard ready to run; `ValueError` says what is wrong with it."""
    try:
        return _ENVIRONMENT.compile(expression)
    except RuntimeError as error:
        raise ValueError(str(error).splitlines()[0]) from error


def passes(expression: str, state: dict[str, Any], event: dict[str, Any]) -> bool:
    """Whether a guard holds. One that cannot be evaluated, as on a missing key or in too many steps, does not."""
    try:
        result = compiled(expression).eval(data={"state": state, "event": event})
    except RuntimeError:
        return False
    return result.type() == cel.Type.BOOL and result.value() is True
