"""Old events move to cold storage, where they stay readable; a session's revision does not notice."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import structlog

from hivemem_contracts.errors import HiveError
from hivemem_runtime.bus.connection import Client
from hivemem_runtime.ledger.port import Committed, Ledger
from hivemem_runtime.loops import Loop
from hivemem_sessions.entities import SESSION

log = structlog.get_logger("hivemem.sessions")

STEP: Final = 256
"""A session is looked at every so many events, and so many at least are moved at a time."""
RECORDS_AT_ONCE: Final = 256
REST: Final = 9
"""Moving has time: it rests so many times as long as it worked, so that it takes a tenth of the store at most."""
WAITING: Final = 1_024


class Archiver:
    """Keeps at most about `keep` events of a session hot. What a crash interrupts, the session's next events redo."""

    def __init__(self, ledger: Ledger, keep: int) -> None:
        self._ledger = ledger
        self._keep = keep
        self._waiting: asyncio.Queue[tuple[str, str, int]] = asyncio.Queue(WAITING)
        self.loop = Loop("archiver", self._run)
        ledger.on_commit(self._committed)

    async def start(self, client: Client) -> None:
        del client
        self.loop.start()

    async def stop(self) -> None:
        await self.loop.stop()

    def _committed(self, records: Sequence[Committed]) -> None:
        for committed in records:
            if committed.entity is not SESSION or committed.erased:
                continue
            sequence, position = committed.record.sequence, committed.record.position
            if sequence is not None and sequence % STEP == 0 and sequence >= self._keep + STEP:
                # A full queue loses nothing: the session comes by again after its next events.
                with suppress(asyncio.QueueFull):
                    self._waiting.put_nowait((committed.stamp.tenant, committed.stamp.id, position - self._keep))

    async def _run(self) -> None:
        while not self.loop.stopping.is_set():
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
