"""A plain model of the load's workflow: the steps that a run takes, and the events that its session gets."""

from typing import Any, NamedTuple


class Taken(NamedTuple):
    id: str
    kind: str
    visit: int
    status: str


def status_of(given: dict[str, Any]) -> str:
    return "compensated" if given["fails"] else "completed"


def changes_of(given: dict[str, Any]) -> list[str]:
    """Return the changes that the feed tells of a run."""
    return ["started", "waiting", "resumed", status_of(given)]


def steps_of(given: dict[str, Any]) -> list[Taken]:
    """Return the steps of a run. Those of the two branches come in any order that keeps the order of each branch."""
    rounds = range(1, given["rounds"] + 1)
    steps = [
        Taken("draft", "task", 1, "completed"),
        *(Taken("check", "task", visit, "completed") for visit in rounds),
        Taken("both", "parallel", 1, "completed"),
        Taken("left", "task", 1, "completed"),
        Taken("right", "task", 1, "completed"),
        Taken("after", "task", 1, "completed"),
        Taken("nap", "sleep", 1, "completed"),
        Taken("pay", "task", 1, "failed" if given["fails"] else "completed"),
    ]
    if given["fails"]:
        steps += [Taken("check", "compensation", visit, "completed") for visit in reversed(rounds)]
    return steps


def event_type(step: Taken) -> str | None:
    """Return the type of the event that a step becomes; None for a step without one."""
    if step.kind in ("parallel", "sleep"):
        return None
    return step.id + (".compensated" if step.kind == "compensation" else ".failed" if step.status == "failed" else "")
