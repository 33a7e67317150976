"""Answers on their way to the socket. Whose answer it is hears when its bytes have left."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Generic, TypeVar

import nats.errors
import structlog
from nats.aio.client import Client

from hivemem_runtime.bus.wire import write

log = structlog.get_logger("hivemem.requests")

WRITE_BYTES: Final = 262_144
"""Answers of the same moment leave together, up to this for the small ones and again for the large ones."""

LARGE_BYTES: Final = 16_384
"""An answer is large from this size on. Small ones wait behind one write of large ones at most."""

STUCK_SECONDS: Final = 5.0
"""A write that takes longer is trouble: the server does not read."""

OwnerT = TypeVar("OwnerT")


class Outbox(Generic[OwnerT]):
    """Writes answers in their order, as fast as the socket takes them, and no faster."""

    def __init__(self, client: Client, left: Callable[[Sequence[OwnerT]], None], *, extra_bytes: int) -> None:
        self._client = client
        self._left = left
        self._extra_limit = extra_bytes
        self._extra = 0
        self._small: deque[tuple[bytes, OwnerT | None]] = deque()
        self._large: deque[tuple[bytes, OwnerT | None]] = deque()
        self._writing: asyncio.Task[None] | None = None
        self._since: float | None = None
        self.dropped = 0

    def put(self, answer: bytes, owner: OwnerT) -> None:
        """Send the answer of one who holds room for it."""
        self._put(answer, owner)

    def put_extra(self, answer: bytes) -> None:
        """Send an answer for which nobody holds room; past a bound it is dropped, for its caller does not wait for
        it but for its time."""
        if self._extra + len(answer) > self._extra_limit:
            self.dropped += 1
            return
        self._extra += len(answer)
        self._put(answer, None)

    def trouble(self) -> str:
        """Say that the server does not read, if so; otherwise the text is empty."""
        if self._since is None or time.monotonic() - self._since < STUCK_SECONDS:
            return ""
        return f"answers do not leave: the server has not read for {time.monotonic() - self._since:.0f} s"

    def _put(self, answer: bytes, owner: OwnerT | None) -> None:
        (self._small if len(answer) < LARGE_BYTES else self._large).append((answer, owner))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())

    async def _write(self) -> None:
        await asyncio.sleep(0)  # what is answered in this turn of the event loop leaves with one write
        while some := [*_first(self._small), *_first(self._large)]:
            self._since = time.monotonic()
            try:
                await write(self._client, [answer for answer, _ in some])
            except (nats.errors.Error, OSError) as error:
                log.warning("answers could not be sent", answers=len(some), error=repr(error))
            self._since = None
            owners: list[OwnerT] = []
            for answer, owner in some:
                if owner is None:
                    self._extra -= len(answer)
                else:
                    owners.append(owner)
            self._left(owners)
        self._writing = None


def _first(queue: deque[tuple[bytes, OwnerT | None]]) -> Iterator[tuple[bytes, OwnerT | None]]:
    """Take out what one write may hold, and at least one."""
    size = 0
    while queue and size < WRITE_BYTES:
        size += len(queue[0][0])
        yield queue.popleft()
