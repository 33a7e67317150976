"""Runs claimed steps: the handler in a task of its own, renewals beside it, and then the report."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Final

from hivemem.connection import ClientClosed
from hivemem.workflows.current_step import CURRENT, CurrentStep, StepFailed
from hivemem_contracts.agents.workflows.models import ClaimedStep
from hivemem_contracts.agents.workflows.replies import StepReported
from hivemem_contracts.errors import HiveError
from hivemem_contracts.limits import LEASE_MINIMUM_MS

if TYPE_CHECKING:
    from hivemem.hive import Hive

log = logging.getLogger("hivemem")

Handler = Callable[[], Awaitable[Any]]
RENEWALS: Final = 3
"""A claim is renewed after a third of its time, so that two renewals may fail before it ends."""
_ERROR_CHARACTERS: Final = 4_000


class StepRunner:
    """Runs steps with the handlers of one workflow."""

    def __init__(self, hive: "Hive", handlers: Mapping[str, Handler], lease_seconds: float) -> None:
        self._hive = hive
        self._handlers = handlers
        self._lease_ms = round(lease_seconds * 1_000)

    async def run(self, claimed: ClaimedStep) -> None:
        """Run a step, and the next steps of its run. A step that is lost or cancelled is left to others."""
        step = claimed
        try:
            while (following := await self._run_one(step)) is not None:
                step = following
        except (HiveError, ClientClosed) as error:
            log.warning("step %s of run %s is left: %s", step.step, step.run_id, error)

    async def _run_one(self, claimed: ClaimedStep) -> ClaimedStep | None:
        context = copy_context()
        context.run(CURRENT.set, CurrentStep(self._hive, claimed))
        working = asyncio.create_task(self._work(claimed), context=context)
        renewing = asyncio.create_task(self._renew(claimed))
        try:
            await asyncio.wait({working, renewing}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                renewing.result()  # raises: the claim is lost, or the run is cancelled
            result = working.result()
        except asyncio.CancelledError:
            self._hive.connection.in_background(lambda: self.give_back(claimed))
            raise
        finally:
            for task in (working, renewing):
                task.cancel()
            await asyncio.gather(working, renewing, return_exceptions=True)
        try:
            return (await self._report(claimed, result)).next
        except HiveError as error:
            if error.name not in ("InvalidRequest", "TooLarge"):
                raise
            failure = {"error": {"type": error.name, "detail": error.detail}, "final": True}
            return (await self._report(claimed, failure)).next

    async def give_back(self, claimed: ClaimedStep) -> None:
        """End a claim soon, so that another process gets the step."""
        with suppress(HiveError, ClientClosed):
            await self._hive.agents.step_renew(
                run_id=claimed.run_id,
                step=claimed.step,
                attempt=claimed.attempt,
                token=claimed.token,
                lease=LEASE_MINIMUM_MS,
            )

    async def _work(self, claimed: ClaimedStep) -> dict[str, Any]:
        """Return the result of the handler, as fields of the report."""
        try:
            return {"output": await self._handlers[claimed.name]()}
        except Exception as error:
            if not isinstance(error, StepFailed):
                log.warning("step %s of run %s failed", claimed.step, claimed.run_id, exc_info=True)
            shown = {"type": type(error).__name__, "detail": str(error)[:_ERROR_CHARACTERS]}
            return {"error": shown, "final": isinstance(error, StepFailed)}

    async def _report(self, claimed: ClaimedStep, result: Mapping[str, Any]) -> StepReported:
        return await self._hive.agents.step_report(
            run_id=claimed.run_id,
            step=claimed.step,
            attempt=claimed.attempt,
            token=claimed.token,
            claim_next=True,
            handlers=list(self._handlers),
            lease=self._lease_ms,
            **result,
        )

    async def _renew(self, claimed: ClaimedStep) -> None:
        """Renew the claim until it is lost. An unreachable fleet does not stop the step, whose report may still
        count."""
        while True:
            await asyncio.sleep(self._lease_ms / 1_000 / RENEWALS)
            try:
                await self._hive.agents.step_renew(
                    run_id=claimed.run_id,
                    step=claimed.step,
                    attempt=claimed.attempt,
                    token=claimed.token,
                    lease=self._lease_ms,
                )
            except HiveError as error:
                if not error.retryable:
                    raise
                log.warning("the claim of step %s of run %s is not renewed: %s", claimed.step, claimed.run_id, error)
