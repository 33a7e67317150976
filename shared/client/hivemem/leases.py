"""A lease held while a block runs: acquired at its start, renewed meanwhile, released at its end."""

import asyncio
import logging
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from hivemem.connection import ClientClosed
from hivemem_contracts.errors import HiveError
from hivemem_contracts.identifiers import new_id
from hivemem_contracts.memory.models import LeaseClaim
from hivemem_contracts.memory.replies import LeaseGranted

if TYPE_CHECKING:
    from hivemem.hive import Hive

log = logging.getLogger("hivemem")

RENEWALS: Final = 3
"""A lease is renewed after a third of its time, so that two renewals may fail before it ends."""
_ANY_NUMBER: Final = 1_000_000


class LeaseLost(HiveError):
    """The lease ended while its block was running: another holder may have had it since. Only the client raises
    this."""

    code = 40905


class Lease:
    """A lease on a namespace or one of its keys. Made by `hive.lease`; entering it acquires it.

    Pass `claim` to a write as its `lease`, so that the write is refused once the lease is lost. When a renewal is
    refused, or none succeeds before the lease ends, `lost` is set. From then on `claim` raises `LeaseLost`, and so does
    the end of the block, unless the block raised another error. A block that only computes should check `lost` from
    time to time.
    """

    def __init__(
        self, hive: "Hive", namespace: str, key: str | None, *, ttl_seconds: float, wait_seconds: float
    ) -> None:
        self._hive = hive
        self._place: dict[str, Any] = {"namespace": namespace} | ({} if key is None else {"key": key})
        self._ttl_ms = round(ttl_seconds * 1_000)
        self._wait_seconds = wait_seconds
        self._deadline = 0.0
        self._renewing: asyncio.Task[None] | None = None
        self._granted: LeaseGranted | None = None
        self._loss: HiveError | None = None
        self.lost = asyncio.Event()

    @property
    def token(self) -> int:
        """The fencing token, which grows with every holder: pass it to systems outside of the fleet that the lease
        protects."""
        return self._held().token

    @property
    def expires_at(self) -> datetime:
        """When the lease ends unless it is renewed, by the fleet's clock."""
        return self._held().expires_at

    @property
    def claim(self) -> LeaseClaim:
        """The `lease` argument of a write that relies on the lease. Raises `LeaseLost`."""
        token = self.token
        if self.lost.is_set():
            raise self._lease_lost()
        return LeaseClaim(**self._place, token=token)

    async def __aenter__(self) -> Self:
        """Acquire the lease. Raises `LeaseHeld` if the wait is over before it is granted."""
        assert self._renewing is None, "a lease is entered once at a time"
        self._loss = None
        self.lost.clear()
        asking = asyncio.ensure_future(self._acquire())
        try:
            granted = await asyncio.shield(asking)
        except asyncio.CancelledError:
            # The request keeps its place in the queue: a grant without a taker is released at once.
            self._hive.connection.in_background(lambda: self._give_back(asking))
            raise
        self._prolonged(granted, asyncio.get_running_loop().time())
        self._renewing = asyncio.create_task(self._renew_in_time())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Before Python 3.12, a cancellation is lost if the answer comes at the same moment.
        renewing, self._renewing = self._renewing, None
        assert renewing is not None, "it was entered"
        renewing.cancel()
        await asyncio.gather(renewing, return_exceptions=True)
        if not self.lost.is_set():
            await self._release()
        if kind is None and self.lost.is_set():
            raise self._lease_lost()

    async def _acquire(self) -> LeaseGranted:
        """Send the request under one id, so that its place in the queue survives lost answers and stopped workers."""
        patient = self._hive.with_options(retries=_ANY_NUMBER, message_id=new_id())
        return await patient.memory.lease(**self._place, ttl_ms=self._ttl_ms, wait_ms=round(self._wait_seconds * 1_000))

    async def _give_back(self, asking: "asyncio.Future[LeaseGranted]") -> None:
        try:
            granted = await asking
            await self._hive.with_options(message_id=None).memory.release(**self._place, token=granted.token)
        except (HiveError, ClientClosed) as error:
            log.debug("the lease was not released: %r", error)

    async def _renew_in_time(self) -> None:
        loop = asyncio.get_running_loop()
        wait_seconds = self._ttl_ms / 1_000 / RENEWALS
        try:
            while self._renewing is not None:
                await asyncio.sleep(wait_seconds)
                asked = loop.time()
                hive = self._hive.with_options(
                    timeout_seconds=max(self._deadline - asked, 0.001),
                    # A worker that dies during one attempt must leave time for others.
                    attempt_seconds=min(self._hive.options.attempt_seconds, wait_seconds / 2),
                    retries=_ANY_NUMBER,
                    message_id=None,
                )
                self._prolonged(await hive.memory.renew(**self._place, token=self.token, ttl_ms=self._ttl_ms), asked)
        except (HiveError, ClientClosed) as error:
            self._lose(error)

    def _prolonged(self, granted: LeaseGranted, since: float) -> None:
        self._granted = granted
        self._deadline = since + self._ttl_ms / 1_000

    async def _release(self) -> None:
        try:
            released = await self._hive.with_options(message_id=None).memory.release(**self._place, token=self.token)
        except (HiveError, ClientClosed) as error:
            log.warning("the lease on %s was not released, it ends at %s: %s", self._place, self.expires_at, error)
        else:
            if not released.released:
                self._lose(None)

    def _lose(self, error: HiveError | ClientClosed | None) -> None:
        self._loss = error if isinstance(error, HiveError) else None
        self.lost.set()

    def _lease_lost(self) -> LeaseLost:
        reason = f": {self._loss.detail}" if self._loss is not None else ""
        lost = LeaseLost(f"the lease was lost while it was needed{reason}", **self._place, token=self.token)
        lost.__cause__ = self._loss
        return lost

    def _held(self) -> LeaseGranted:
        if self._granted is None:
            raise RuntimeError(
                "the lease is not held: a block acquires it, `with` or `async with hive.lease(…) as lease:`"
            )
        return self._granted
