"""Conditions: which ones hold, at a bounded cost for all of one commit."""

from collections.abc import Mapping
from typing import Any

from hivemem_runtime.expressions.budget import BudgetExceeded, EvaluationFailed, Meter
from hivemem_runtime.expressions.evaluation import compiled


class StepBroken(Exception):
    """The run cannot go on at a step; `error` is what it fails with."""

    def __init__(self, step: str, name: str, detail: str) -> None:
        super().__init__(detail)
        self.step = step
        self.error = {"name": name, "detail": detail}


def holds(step: str, text: str, variables: Mapping[str, Any], meter: Meter) -> bool:
    """Return whether a condition is true; one that has no value for its input is not. Raises `StepBroken` for one that
    costs too much."""
    try:
        return compiled(text, tuple(variables)).evaluate(variables, meter) is True
    except BudgetExceeded as excess:
        detail = f"the condition {text!r} takes over {excess.limit} {excess.unit}"
        raise StepBroken(step, "TooLarge", detail) from excess
    except (EvaluationFailed, ValueError):  # a condition of an older version may be invalid now
        return False
