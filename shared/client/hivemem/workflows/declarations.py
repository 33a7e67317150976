"""Declarations of steps in a class, and the definition that follows from them."""

import inspect
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, TypeVar

from hivemem_contracts.agents.workflows.definition import WorkflowDefinition
from hivemem_contracts.nearest_name import suggestion

Then = str | Mapping[str, str | None]
"""The step that comes next; or the steps that may, in order, each with its condition or None."""

StepMethod = Callable[[Any], Awaitable[Any]]
MethodT = TypeVar("MethodT", bound=StepMethod)
DECLARED: Final = "__hivemem_step__"


@dataclass(frozen=True, slots=True)
class Retry:
    """How often a failed step is tried, with the first attempt, and the pauses between."""

    attempts: int = 3
    delay_seconds: float = 1.0
    factor: float = 2.0
    max_delay_seconds: float = 3_600.0


class StepDeclaration:
    """A step that no method carries out: a timer, a wait, or branches. Assign it to an attribute, its id."""

    def __init__(self, fields: Mapping[str, Any], branches: Sequence[Sequence[str]] = ()) -> None:
        self.fields = {name: value for name, value in fields.items() if value is not None}
        self.branches = branches


def step(
    *,
    when: str | None = None,
    then: Then | None = None,
    save: str | None = None,
    retry: Retry | None = None,
    timeout_seconds: float | None = None,
    compensate: str | None = None,
    max_visits: int | None = None,
) -> Callable[[MethodT], MethodT]:
    """Declare how a method is run as a step; without it, a method is a step as it is.

    `when` is a condition that skips the step unless it is true. `then` names the step that comes next, or maps steps to
    conditions; `"end"` ends the run. `save` is the key of the state that gets the result. `compensate` names the method
    that undoes the step if the run fails later.
    """
    fields: dict[str, Any] = {
        "when": when,
        "save": save,
        "retry": None if retry is None else asdict(retry),
        "timeout_seconds": timeout_seconds,
        "compensate": compensate,
        "max_visits": max_visits,
        "next": _targets(then),
    }
    given = {name: value for name, value in fields.items() if value is not None}

    def declare(method: MethodT) -> MethodT:
        setattr(method, DECLARED, given)
        return method

    return declare


def sleep(seconds: float, *, when: str | None = None, then: Then | None = None) -> StepDeclaration:
    """Wait for some time; no process has to."""
    return StepDeclaration({"sleep_seconds": seconds, "when": when, "next": _targets(then)})


def wait_signal(
    name: str,
    *,
    save: str | None = None,
    timeout_seconds: float | None = None,
    on_timeout: str | None = None,
    when: str | None = None,
    then: Then | None = None,
) -> StepDeclaration:
    """Wait for a signal to the run. If `timeout_seconds` pass before, the run goes on at `on_timeout`, or fails."""
    wait = _given(signal=name, timeout_seconds=timeout_seconds, on_timeout=on_timeout)
    return StepDeclaration({"wait": wait, "save": save, "when": when, "next": _targets(then)})


def wait_change(
    entity: str,
    *parts: str,
    where: str | None = None,
    save: str | None = None,
    timeout_seconds: float | None = None,
    on_timeout: str | None = None,
    when: str | None = None,
    then: Then | None = None,
) -> StepDeclaration:
    """Wait for a change on the feed: of an entity, below the first parts of its address, for which the condition
    `where` over `change` is true."""
    wait = _given(change=[entity, *parts], when=where, timeout_seconds=timeout_seconds, on_timeout=on_timeout)
    return StepDeclaration({"wait": wait, "save": save, "when": when, "next": _targets(then)})


def parallel(
    *branches: Sequence[str],
    join: Literal["all", "any"] = "all",
    save: str | None = None,
    when: str | None = None,
    then: Then | None = None,
) -> StepDeclaration:
    """Run branches side by side, each a list of steps of the class, and wait for all of them, or for any."""
    fields = {"join": None if join == "all" else join, "save": save, "when": when, "next": _targets(then)}
    return StepDeclaration(fields, branches)


def definition_of(kind: type, apart: Collection[type]) -> tuple[WorkflowDefinition, list[str]]:
    """Return the definition that a class declares, and the names of its handlers.

    Every public coroutine method is a step, in the order of the class, but for the methods of the bases `apart`. Steps
    of branches and methods that compensate others are left out of this order. Raises `TypeError` for names that the
    class does not have.
    """
    found: dict[str, dict[str, Any]] = {}
    branches: dict[str, Sequence[Sequence[str]]] = {}
    handlers: list[str] = []
    members: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        members |= vars(base) if base not in apart else {}
    for name, member in members.items():
        if isinstance(member, StepDeclaration):
            found[name] = {"id": name, **member.fields}
            branches |= {name: member.branches} if member.branches else {}
        elif inspect.iscoroutinefunction(member) and not name.startswith("_"):
            found[name] = {"id": name, **getattr(member, DECLARED, {})}
            handlers.append(name)
    undoing = {fields["compensate"] for fields in found.values() if "compensate" in fields}
    inner = {name for some in branches.values() for names in some for name in names}
    for name in [*undoing, *inner]:
        if name not in found:
            raise TypeError(f"{kind.__name__} has no step {name!r}{suggestion(name, found)}")
    for name, some in branches.items():
        found[name]["parallel"] = [[found[each] for each in names] for names in some]
    steps = [fields for name, fields in found.items() if name not in inner and name not in undoing]
    description = inspect.cleandoc(kind.__doc__) if kind.__doc__ else None
    return WorkflowDefinition.model_validate(_given(description=description, steps=steps)), handlers


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _targets(then: Then | None) -> list[dict[str, Any]] | None:
    if then is None:
        return None
    if isinstance(then, str):
        return [{"to": then}]
    return [_given(to=to, when=when) for to, when in then.items()]
