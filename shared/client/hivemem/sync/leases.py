"""A lease held while a `with` block runs."""

import asyncio
import threading
from datetime import datetime
from types import TracebackType
from typing import Self

from hivemem.leases import Lease
from hivemem.sync.blocking import Blocking
from hivemem.sync.loop_thread import LoopThread
from hivemem_contracts.memory.models import LeaseClaim


class BlockingLease(Blocking[Lease]):
    """A lease on a namespace or one of its keys. Made by `hive.lease`; entering it acquires it.

    Pass `claim` to a write as its `lease`, so that the write is refused once the lease is lost. When a renewal is
    refused, or none succeeds before the lease ends, `lost` is set. From then on `claim` raises `LeaseLost`, and so does
    the end of the block, unless the block raised another error. A block that only computes should check `lost` from
    time to time.
    """

    def __init__(self, lease: Lease, thread: LoopThread) -> None:
        super().__init__(lease, thread)
        self._watching: asyncio.Task[None] | None = None
        self.lost = threading.Event()

    @property
    def token(self) -> int:
        """The fencing token, which grows with every holder: pass it to systems outside of the fleet that the lease
        protects."""
        return self.wrapped.token

    @property
    def expires_at(self) -> datetime:
        """When the lease ends unless it is renewed, by the fleet's clock."""
        return self.wrapped.expires_at

    @property
    def claim(self) -> LeaseClaim:
        """The `lease` argument of a write that relies on the lease. Raises `LeaseLost`."""
        return self.wrapped.claim

    def __enter__(self) -> Self:
        """Acquire the lease. Raises `LeaseHeld` if the wait is over before it is granted."""
        self.thread.run(self._acquire())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.thread.run(self._release(kind, error, trace))

    async def _acquire(self) -> None:
        self.lost.clear()
        await self.wrapped.__aenter__()
        self._watching = asyncio.create_task(self._watch())

    async def _release(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._watching is not None:
            self._watching.cancel()
        try:
            await self.wrapped.__aexit__(kind, error, trace)
        finally:
            if self.wrapped.lost.is_set():
                self.lost.set()

    async def _watch(self) -> None:
        await self.wrapped.lost.wait()
        self.lost.set()
