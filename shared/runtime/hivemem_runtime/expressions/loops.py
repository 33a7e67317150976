"""The loops of expressions: CEL has them as macros over the items of a list or the keys of a map."""

from collections.abc import Callable, Iterable
from typing import Any

from hivemem_runtime.expressions.budget import EvaluationFailed
from hivemem_runtime.expressions.values import keys_of

Frame = list[Any]
Run = Callable[[Frame], Any]


def _items(value: Any) -> Iterable[Any]:
    """One by one, so that nothing is copied for a loop that ends early."""
    if value.__class__ is list:
        found: list[Any] = value
        return found
    if value.__class__ is dict:
        return keys_of(value)
    raise EvaluationFailed(f"{value.__class__.__name__} has no items")


def quantify(source: Run, place: int, condition: Run, cost: int, *, decides: bool) -> Run:
    """`exists`, or `all`: the first item whose condition is `decides` ends it, also where others failed."""

    def run(frame: Frame) -> bool:
        spend = frame[0].spend
        failure: str | None = None  # without the exception, whose traceback would keep the frame alive
        for item in _items(source(frame)):
            spend(cost)
            frame[place] = item
            try:
                holds = condition(frame)
            except EvaluationFailed as error:
                failure = str(error)
                continue
            if holds is decides:
                return bool(decides)
            if not isinstance(holds, bool):
                failure = f"{holds.__class__.__name__} is no condition"
        if failure is not None:
            raise EvaluationFailed(failure)
        return not decides

    return run


def exactly_one(source: Run, place: int, condition: Run, cost: int) -> Run:
    """`exists_one`: every item has a say."""

    def run(frame: Frame) -> bool:
        spend = frame[0].spend
        found = 0
        for item in _items(source(frame)):
            spend(cost)
            frame[place] = item
            holds = condition(frame)
            if holds.__class__ is not bool:
                raise EvaluationFailed(f"{holds.__class__.__name__} is no condition")
            found += holds
        return found == 1

    return run


def gather(
    source: Run, place: int, item: Run, item_cost: int, condition: Run | None = None, condition_cost: int = 0
) -> Run:
    """`map` and `filter`."""

    def run(frame: Frame) -> list[Any]:
        spend = frame[0].spend
        cost = item_cost + condition_cost
        found: list[Any] = []
        for each in _items(source(frame)):
            spend(cost)
            frame[place] = each
            if condition is not None:
                holds = condition(frame)
                if holds.__class__ is not bool:
                    raise EvaluationFailed(f"{holds.__class__.__name__} is no condition")
                if not holds:
                    continue
            found.append(item(frame))
        return found

    return run
