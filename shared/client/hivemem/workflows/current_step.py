"""The step that the current task runs."""

import inspect
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar, overload

from hivemem_contracts.agents.workflows.models import ClaimedStep

if TYPE_CHECKING:
    from hivemem.hive import Hive

ResultT = TypeVar("ResultT")


class StepFailed(Exception):
    """Raised by a step that no further attempt can help: it fails at once."""


class CurrentStep:
    """What a step knows of itself, `hive.step` while it runs."""

    def __init__(self, hive: "Hive", claimed: ClaimedStep) -> None:
        self._hive = hive
        self._claimed = claimed

    @property
    def run_id(self) -> str:
        return self._claimed.run_id

    @property
    def id(self) -> str:
        """The step's id in the definition."""
        return self._claimed.step

    @property
    def input(self) -> Any:
        """The input of the run."""
        return self._claimed.input

    @property
    def state(self) -> dict[str, Any]:
        """The state of the run when the step began."""
        return self._claimed.state

    @property
    def output(self) -> Any:
        """In a compensation, the result of the step that it undoes."""
        return self._claimed.output

    @property
    def attempt(self) -> int:
        return self._claimed.attempt

    @property
    def key(self) -> str:
        """An idempotency key for other systems: the same for every attempt of this visit to the step."""
        return f"{self._claimed.run_id}/{self._claimed.number}"

    @overload
    async def once(self, key: str, function: Callable[[], Coroutine[Any, Any, ResultT]]) -> ResultT: ...
    @overload
    async def once(self, key: str, function: Callable[[], ResultT]) -> ResultT: ...
    async def once(self, key: str, function: Callable[[], Any]) -> Any:
        """Return the result of a side effect, which is carried out unless an attempt recorded its result before.

        The result is JSON. If the process ends after the effect and before the record, the next attempt repeats it:
        pass `hive.step.key` to systems that take an idempotency key.
        """
        claimed = self._claimed
        agents = self._hive.with_options(message_id=None).agents
        found = await agents.step_once(run_id=claimed.run_id, step=claimed.step, token=claimed.token, key=key)
        if not found.recorded:
            made = function()
            if inspect.isawaitable(made):
                made = await made
            found = await agents.step_once(
                run_id=claimed.run_id, step=claimed.step, token=claimed.token, key=key, result=made
            )
        return found.result


CURRENT: ContextVar[CurrentStep] = ContextVar("hivemem_step")


def current_step() -> CurrentStep:
    """Return the step that runs now. Raises `RuntimeError` outside of one."""
    try:
        return CURRENT.get()
    except LookupError:
        raise RuntimeError("hive.step: no step of a workflow runs here") from None
