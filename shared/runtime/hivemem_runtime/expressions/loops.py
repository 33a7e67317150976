"""The loops of expressions: CEL has them as macros over the items of a list or the keys of a map."""

from collections.abc import Callable, Iterable
from typing import Any

from hivemem_runtime.expressions.budget import EvaluationFailed
from hivemem_runtime.expressions.values import keys_of, type_of

Frame = list[Any]
Run = Callable[[Frame], Any]


def _items(value: Any) -> Iterable[Any]:
    """One by one, so that nothing is copied for a loop that ends early."""
    if value.__class__ is list:
        found: list[Any] = value
        return found
    if value.__class__ is dict:
        return keys_of(value)
    raise EvaluationFailed(f"{type_of(value)} has no items")


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
                failure = f"{type_of(holds)} is no condition"
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
                raise EvaluationFailed(f"{type_of(holds)} is no condition")
            found += holds
        return found == 1

    return run


def gather(source: Run, place: int, item: tuple[Run, int] | None, condition: tuple[Run, int] | None = None) -> Run:
    """`map` and `filter`. A body comes with its cost; without an item, the items of the source are gathered."""
    make, item_cost = item or (_read(place), 2)
    holds_for, condition_cost = condition or (None, 0)
    cost = item_cost + condition_cost

    def run(frame: Frame) -> list[Any]:
        spend = frame[0].spend
        found: list[Any] = []
        for each in _items(source(frame)):
            spend(cost)
            frame[place] = each
            if holds_for is not None:
                holds = holds_for(frame)
                if holds.__class__ is not bool:
                    raise EvaluationFailed(f"{type_of(holds)} is no condition")
                if not holds:
                    continue
            found.append(make(frame))
        return found

    return run


def _read(place: int) -> Run:
    return lambda frame: frame[place]
