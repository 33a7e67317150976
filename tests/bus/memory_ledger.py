"""An in-memory ledger that only commits, and fails on demand as a real one may."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from hivemem_contracts.errors import Overloaded, Unavailable
from hivemem_runtime.ledger.identities import require_same_command
from hivemem_runtime.ledger.port import Heads, Ledger, Outcome, Write, appends_and_answer

from .items import NumberAdded


@dataclass(frozen=True)
class Added:
    tenant: str
    item: str
    number: int
    actor: str
    cause: str | None


class MemoryLedger:
    """Commits all writes queued in one turn of the event loop as one batch; no entity has a head."""

    def __init__(self) -> None:
        self.added: list[Added] = []
        self.batches: list[int] = []
        self.down = False
        self.room: int | None = None
        """The maximum number of waiting commits; None for no limit."""
        self._requests: dict[str, bytes | None] = {}
        self._queue: list[tuple[Write, asyncio.Future[Outcome]]] = []
        self._on_queued: Callable[[], None] | None = None

    @property
    def numbers(self) -> list[int]:
        return [added.number for added in self.added]

    def as_port(self) -> Ledger:
        return cast("Ledger", self)

    def make_room_when_refused(self) -> None:
        """Empty the queue right after a commit found it full, as the thread of a real writer may."""
        self._on_queued = self._run

    def commit(self, write: Write) -> asyncio.Future[Outcome]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Outcome] = loop.create_future()
        if self.room is not None and len(self._queue) >= self.room:
            future.set_exception(Overloaded("full", retry_after_ms=1))
            if self._on_queued is not None:
                self._on_queued()
            return future
        if not self._queue:
            loop.call_soon(self._run)
        self._queue.append((write, future))
        return future

    def _run(self) -> None:
        queue, self._queue = self._queue, []
        if queue:
            self.batches.append(len(queue))
        for write, future in queue:
            if self.down:
                future.set_exception(Unavailable("the store is down", retry_after_ms=1))
                continue
            try:
                future.set_result(self._apply(write))
            except Exception as error:
                future.set_exception(error)

    def _apply(self, write: Write) -> Outcome:
        assert write.request_id is not None
        name, digest, _ = write.request_id
        if name in self._requests:
            require_same_command(self._requests[name], digest)
            return Outcome(None, None, None, duplicate=True)
        appends, _ = appends_and_answer(write.decide(cast("Heads", _no_heads), 0))
        record: NumberAdded = appends[0].record
        self._requests[name] = digest
        self.added.append(Added(write.tenant, write.id, record.number, write.actor, write.cause))
        return Outcome(None, record, None)


def _no_heads(entity: Any, id: str) -> None:
    return None
