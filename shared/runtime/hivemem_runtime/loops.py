"""Background loops of a worker: each has one owner, which starts it again when it ends and says so."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from hivemem_runtime.backoff import Backoff

log = structlog.get_logger("hivemem.loops")

FIRST_BACKOFF_SECONDS: Final = 0.1
LONGEST_BACKOFF_SECONDS: Final = 5.0
RECENT_SECONDS: Final = 10.0
"""A failure counts as trouble until the loop has run this long again."""


class Loop:
    """Runs `run` as a named task from `start` to `stop`. `run` goes on until `stopping` is set.

    A `run` that raises or returns before that is logged, shows as `trouble`, and is started again after a backoff.
    """

    def __init__(self, name: str, run: Callable[[], Awaitable[None]]) -> None:
        self.name = name
        self.stopping = asyncio.Event()
        self._run = run
        self._task: asyncio.Task[None] | None = None
        self._failure: str | None = None
        self._failed_at = 0.0

    def start(self) -> None:
        self.stopping.clear()
        self._failure = None
        self._task = asyncio.create_task(self._keep_running(), name=f"hivemem-{self.name}")

    async def stop(self, grace_seconds: float = 0.0) -> None:
        """Set `stopping`, and cancel what has not ended after the grace."""
        task, self._task = self._task, None
        if task is not None:
            # Before Python 3.12, a task that gets an answer at the same moment misses its cancellation.
            self.stopping.set()
            if grace_seconds:
                await asyncio.wait({task}, timeout=grace_seconds)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    @property
    def trouble(self) -> str | None:
        """What keeps the loop from its work, in one sentence."""
        if self._task is None:
            return None
        if self._task.done():
            return f"the loop {self.name} has ended; restart the worker"
        if self._failure is not None and time.monotonic() - self._failed_at < RECENT_SECONDS:
            return f"the loop {self.name} failed and was started again: {self._failure}"
        return None

    async def _keep_running(self) -> None:
        backoff = Backoff(FIRST_BACKOFF_SECONDS, LONGEST_BACKOFF_SECONDS)
        try:
            while not self.stopping.is_set():
                began = time.monotonic()
                await self._run_once()
                if self.stopping.is_set():
                    return
                self._failed_at = time.monotonic()
                if self._failed_at - began > RECENT_SECONDS:
                    backoff.succeeded()
                await asyncio.sleep(backoff.failed())
        finally:
            if not self.stopping.is_set():
                log.error("loop ended", loop=self.name)

    async def _run_once(self) -> None:
        try:
            await self._run()
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and not foreign_cancellation(error):
                raise
            self._failure = repr(error)
            log.exception("loop failed", loop=self.name)
        else:
            self._failure = "it ended by itself"
            if not self.stopping.is_set():
                log.error("loop ended by itself", loop=self.name)


def foreign_cancellation(error: BaseException) -> bool:
    """Whether it is the cancellation of another task: the NATS client lets out that of its own tasks."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() == 0
