"""Compiled expressions and their cost.

A node outside loops counts once, when the evaluation begins; a node of a loop's body counts for each item, also where
`&&`, `||` or `?:` skips it. Functions count the size of their arguments beyond that.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from hivemem_runtime.expressions.budget import BudgetExceeded, EvaluationFailed, Meter
from hivemem_runtime.expressions.compiling import Compiler, Frame, nodes
from hivemem_runtime.expressions.parsing import parse


class Expression:
    """An expression of CEL over some variables. The same input gives the same value, or the same excess, everywhere."""

    def __init__(self, text: str, variables: tuple[str, ...]) -> None:
        """`ValueError` says what is wrong with the text."""
        tree = parse(text, variables)
        compiler = Compiler(variables)
        self.text = text
        self._variables = variables
        self._run = compiler.compiled(tree)
        self._nodes = nodes(tree)
        self._loops = [None] * compiler.loops

    def evaluate(self, variables: Mapping[str, Any], meter: Meter) -> Any:
        """Return the value. Raises `EvaluationFailed` or `BudgetExceeded`."""
        try:
            meter.spend(self._nodes)
            return self._run([meter, *[variables[name] for name in self._variables], *self._loops])
        except BudgetExceeded as error:
            excess = BudgetExceeded(error.unit, error.limit, error.actual)
        # Raised anew and out here: the traceback of the first one would keep alive whatever was built.
        raise excess

    def excess(self, meter: Meter) -> BudgetExceeded | None:
        """Return the excess that comes before the first look at a variable, and therefore on every input."""
        try:
            meter.spend(self._nodes)
            self._run(_WithoutInput([meter, *self._variables, *self._loops], len(self._variables)))
        except BudgetExceeded as error:
            return error
        except (EvaluationFailed, _InputNeeded):
            pass
        return None


@lru_cache(maxsize=512)
def compiled(text: str, variables: tuple[str, ...]) -> Expression:
    """Return a cached expression. One of 1,000 characters takes up to 150 KB."""
    return Expression(text, variables)


class _InputNeeded(Exception):
    pass


class _WithoutInput(Frame):
    """A frame where a look at a variable ends the evaluation."""

    def __init__(self, frame: Frame, variables: int) -> None:
        super().__init__(frame)
        self._inputs = range(1, variables + 1)

    def __getitem__(self, place: Any) -> Any:
        if place in self._inputs:
            raise _InputNeeded
        return super().__getitem__(place)
