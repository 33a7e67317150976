"""Old events move to cold storage, where they stay readable; a session's revision does not notice."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import structlog

from hivemem_contracts.errors import HiveError, Unavailable
from hivemem_runtime.background import LoopingBackground
from hivemem_runtime.ledger.port import Committed, Ledger
from hivemem_sessions.entities import SESSION

log = structlog.get_logger("hivemem.sessions")

STEP: Final = 256
"""A session is looked at every so many events, and so many at least are moved at a time."""
RECORDS_AT_ONCE: Final = 256
REST: Final = 9
"""Moving has time: it rests so many times as long as it worked, so that it takes a tenth of the store at most."""
WAITING: Final = 1_024
NOTED_SECONDS: Final = 0.1
NOTED_LOOKS: Final = 20
"""A worker notes what it has announced within a second."""
DUE: Final = 1_000
"""The fleet's unannounced keys in one read, at most."""


class Archiver(LoopingBackground):
    """Keeps at most about `keep` events of a session hot. What a crash interrupts, the session's next events redo."""

    def __init__(self, ledger: Ledger, keep: int) -> None:
        super().__init__("archiver")
        self._ledger = ledger
        self._keep = keep
        self._waiting: asyncio.Queue[tuple[str, str, int]] = asyncio.Queue(WAITING)
        ledger.on_commit(self._committed)

    def _committed(self, records: Sequence[Committed]) -> None:
        for committed in records:
            if committed.entity is not SESSION or committed.erased:
                continue
            sequence, position = committed.record.sequence, committed.record.position
            if sequence is not None and sequence % STEP == 0 and sequence >= self._keep + STEP:
                # A full queue loses nothing: the session comes by again after its next events.
                with suppress(asyncio.QueueFull):
                    self._waiting.put_nowait((committed.stamp.tenant, committed.stamp.id, position - self._keep))

    async def run(self) -> None:
        while not self.stopping:
            tenant, id, position = await self._waiting.get()
            try:
                await self._freeze_through_position(tenant, id, position)
            except HiveError as error:
                log.warning("old events stay where they are for now", session_id=id, error=str(error))
            except Exception:
                log.exception("old events could not be moved", session_id=id)

    async def _freeze_through_position(self, tenant: str, id: str, position: int) -> None:
        found = await self._ledger.history(
            SESSION, tenant, id, after=position - 1, before=position + 1, limit=1, by_position=True
        )
        if found:
            await freeze_through(self._ledger, tenant, id, found[0].stamp.version)


async def freeze_announced(ledger: Ledger, tenant: str, id: str, version: int) -> None:
    """Move a session's records through a version that the feed has told, once the ledger has them as announced.

    The change alone does not prove it: the feed may have lost it since. Raises `Unavailable` after a while: the worker
    that announced it, or a sweep, is about to note it.
    """
    for _ in range(NOTED_LOOKS):
        head = await ledger.head(SESSION, tenant, id)
        if head is None or head.value is None or head.version < version:
            return
        due = await ledger.due(older_than=head.at + 1, limit=DUE)
        key = SESSION.name, tenant, id
        mark = next((each.announced for each in due if (each.entity, each.tenant, each.id) == key), None)
        if (mark is None and len(due) < DUE) or (mark is not None and mark >= version):
            await freeze_through(ledger, tenant, id, version)
            return
        await asyncio.sleep(NOTED_SECONDS)
    raise Unavailable(f"session {id!r} is not known as announced yet", retry_after_ms=1_000)


async def freeze_through(ledger: Ledger, tenant: str, id: str, version: int) -> int:
    """Move a session's records through a version, as far as they are announced; answers how many."""
    moved = 0
    while True:
        started = time.monotonic()
        step = await ledger.freeze(SESSION, tenant, id, version, limit=RECORDS_AT_ONCE)
        moved += step
        await asyncio.sleep(REST * (time.monotonic() - started))
        if step < RECORDS_AT_ONCE:
            return moved
