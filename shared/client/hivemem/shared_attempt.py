"""One attempt for many callers."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class SharedAttempt:
    """Lets all callers wait for one attempt, which ends early when all of them are gone."""

    def __init__(self, attempt: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._attempt = attempt
        self._task: asyncio.Task[None] | None = None
        self._callers = 0

    async def wait(self) -> None:
        """Begin an attempt, or join the one under way. Raises its error."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._attempt())
        task = self._task
        self._callers += 1
        try:
            await asyncio.shield(task)
        finally:
            self._callers -= 1
            if not self._callers:
                task.cancel()

    async def cancel(self) -> None:
        """End the attempt under way. Its callers are cancelled."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
