"""What an expression may cost, counted while it runs. The count depends on nothing but the expression and its input."""

from typing import Final, Literal

from hivemem_contracts.limits import EXPRESSION_BYTES, EXPRESSION_STEPS

_CHARACTERS_PER_STEP: Final = 64


class EvaluationFailed(Exception):
    """The expression has no value for this input: a missing key, a wrong type, an overflow."""


class BudgetExceeded(Exception):
    """The expression costs more than it may. `limit` and `actual` count `unit`."""

    def __init__(self, unit: Literal["steps", "bytes"], limit: int, actual: int) -> None:
        super().__init__(f"over {limit} {unit}")
        self.unit: Literal["steps", "bytes"] = unit
        self.limit = limit
        self.actual = actual


class Meter:
    """Counts the steps of one or more evaluations and the bytes of the texts and lists that they build."""

    __slots__ = ("_byte_limit", "_bytes", "_step_limit", "_steps")

    def __init__(self, steps: int = EXPRESSION_STEPS, size: int = EXPRESSION_BYTES) -> None:
        self._step_limit = self._steps = steps
        self._byte_limit = self._bytes = size

    @property
    def steps(self) -> int:
        """The steps so far."""
        return self._step_limit - self._steps

    def spend(self, steps: int) -> None:
        self._steps -= steps
        if self._steps < 0:
            raise BudgetExceeded("steps", self._step_limit, self._step_limit - self._steps)

    def scan(self, characters: int) -> None:
        """Spend what it costs to look at a text."""
        self.spend(characters // _CHARACTERS_PER_STEP)

    def allocate(self, size: int) -> None:
        """Count bytes that are about to be built. Bytes that are released again count all the same."""
        self._bytes -= size
        if self._bytes < 0:
            raise BudgetExceeded("bytes", self._byte_limit, self._byte_limit - self._bytes)
