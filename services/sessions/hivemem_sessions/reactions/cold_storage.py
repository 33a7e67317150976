"""Cold storage for old events. Moved events stay readable, and the session's revision does not change."""

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
"""The number of events between two checks of a session, and the minimum number of records moved at a time."""
RECORDS_AT_ONCE: Final = 256
REST_FACTOR: Final = 9
"""After a move the archiver rests this many times the duration of the move, so it uses at most a tenth of the store."""
QUEUED_SESSIONS: Final = 1_024
RECORDED_SECONDS: Final = 0.1
RECORDED_CHECKS: Final = 20
"""The number of checks for an announcement. A worker records its announcements within a second."""
DUE_KEYS: Final = 1_000
"""The maximum number of unannounced keys, over all tenants, that one read returns."""


class Archiver(LoopingBackground):
    """Keeps about `keep` events of each session in hot storage. After a crash, the session's next events trigger the
    move again."""

    def __init__(self, ledger: Ledger, keep: int) -> None:
        super().__init__("archiver")
        self._ledger = ledger
        self._keep = keep
        self._queue: asyncio.Queue[tuple[str, str, int]] = asyncio.Queue(QUEUED_SESSIONS)
        ledger.on_commit(self._committed)

    def _committed(self, records: Sequence[Committed]) -> None:
        for committed in records:
            if committed.entity is not SESSION or committed.erased:
                continue
            sequence, position = committed.record.sequence, committed.record.position
            if sequence is not None and sequence % STEP == 0 and sequence >= self._keep + STEP:
                # Nothing is lost if the queue is full: the session's next events queue it again.
                with suppress(asyncio.QueueFull):
                    self._queue.put_nowait((committed.stamp.tenant, committed.stamp.id, position - self._keep))

    async def run(self) -> None:
        while not self.stopping:
            tenant, id, position = await self._queue.get()
            try:
                await self._freeze_through_position(tenant, id, position)
            except HiveError as error:
                log.warning("freezing old events postponed", session_id=id, error=str(error))
            except Exception:
                log.exception("freezing old events failed", session_id=id)

    async def _freeze_through_position(self, tenant: str, id: str, position: int) -> None:
        found = await self._ledger.history(
            SESSION, tenant, id, after=position - 1, before=position + 1, limit=1, by_position=True
        )
        if found:
            await freeze_through(self._ledger, tenant, id, found[0].stamp.version)


async def freeze_announced(ledger: Ledger, tenant: str, id: str, version: int) -> None:
    """Move a session's records through an announced version, once the ledger has recorded the announcement.

    A change on the feed is no proof, because the feed may lose its tail. Raises `Unavailable` if the record of the
    announcement does not appear in time; the announcing worker or its sweep will write it.
    """
    for _ in range(RECORDED_CHECKS):
        head = await ledger.head(SESSION, tenant, id)
        if head is None or head.value is None or head.version < version:
            return
        due = await ledger.due(older_than=head.at + 1, limit=DUE_KEYS)
        key = SESSION.name, tenant, id
        mark = next((each.announced for each in due if (each.entity, each.tenant, each.id) == key), None)
        if (mark is None and len(due) < DUE_KEYS) or (mark is not None and mark >= version):
            await freeze_through(ledger, tenant, id, version)
            return
        await asyncio.sleep(RECORDED_SECONDS)
    raise Unavailable(f"the announcement of session {id!r} is not recorded yet", retry_after_ms=1_000)


async def freeze_through(ledger: Ledger, tenant: str, id: str, version: int) -> int:
    """Move a session's announced records through a version, and return how many were moved."""
    moved = 0
    while True:
        started = time.monotonic()
        step = await ledger.freeze(SESSION, tenant, id, version, limit=RECORDS_AT_ONCE)
        moved += step
        await asyncio.sleep(REST_FACTOR * (time.monotonic() - started))
        if step < RECORDS_AT_ONCE:
            return moved
