"""A lock between the partitions of a process: many handle batches together, or one handles a single message alone."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from weakref import WeakKeyDictionary


class AloneLock:
    """Who waits to be alone goes before those who come later."""

    def __init__(self) -> None:
        self._together = 0
        self._waiting = 0
        self._alone = False
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def together(self) -> AsyncGenerator[None]:
        async with self._changed:
            await self._changed.wait_for(lambda: not self._alone and not self._waiting)
            self._together += 1
        try:
            yield
        finally:
            async with self._changed:
                self._together -= 1
                self._changed.notify_all()

    @asynccontextmanager
    async def alone(self, timeout_seconds: float) -> AsyncGenerator[None]:
        """Raises `TimeoutError` where the others take longer than that."""
        async with asyncio.timeout(timeout_seconds), self._changed:
            self._waiting += 1
            try:
                await self._changed.wait_for(lambda: not self._alone and not self._together)
                self._alone = True
            finally:
                self._waiting -= 1
                self._changed.notify_all()
        try:
            yield
        finally:
            async with self._changed:
                self._alone = False
                self._changed.notify_all()


_locks: WeakKeyDictionary[asyncio.AbstractEventLoop, AloneLock] = WeakKeyDictionary()


def alone_lock() -> AloneLock:
    """The lock of this process: services that share one die together, too."""
    return _locks.setdefault(asyncio.get_running_loop(), AloneLock())
