"""Aborts transactions that other workers left open, so that nobody waits for their locks.

A worker that is killed or frozen between writing a batch and committing it leaves the batch's documents locked until
the server gives up the transaction, by default after a minute or more. Living workers do that much sooner. If the owner
is alive after all, it sees an ordinary conflict and tries again.
"""

import asyncio
from contextlib import suppress
from typing import Final

import structlog
from pymongo.errors import PyMongoError

from hivemem_runtime.ledger.mongo.driver import APPLICATION, Database

log = structlog.get_logger("hivemem.ledger")

IDLE_SECONDS: Final = 1.0
"""Between its two commands a living worker's transaction is idle for a millisecond."""
LOOK_SECONDS: Final = 0.5
_ENDED_AT_ONCE: Final = 100


async def end_abandoned(database: Database) -> int:
    """One look; answers how many were ended. Raises the driver's errors."""
    idle = {
        "type": "idleSession",
        "appName": APPLICATION,
        "transaction.timeInactiveMicros": {"$gte": int(IDLE_SECONDS * 1_000_000)},
    }
    # Other users' transactions would need a privilege, and all workers are one user.
    pipeline = [{"$currentOp": {"idleSessions": True}}, {"$match": idle}, {"$limit": _ENDED_AT_ONCE}]
    reply = await database.command({"aggregate": 1, "pipeline": pipeline, "cursor": {}}, admin=True)
    sessions = [{"id": found["lsid"]["id"]} for found in reply["cursor"]["firstBatch"]]
    if sessions:
        await database.command({"killSessions": sessions}, admin=True)
        log.warning("transactions of other workers ended", count=len(sessions))
    return len(sessions)


class Upkeep:
    """Looks twice a second, from when it is made until it is stopped. A server that is away, or does not allow it, is
    asked again the next time."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._stopping = asyncio.Event()
        self._refused: type[PyMongoError] | None = None
        self._task = asyncio.create_task(self._run(), name="hivemem-mongo-upkeep")

    async def stop(self) -> None:
        # Not by cancelling: a driver in the middle of a command may swallow that.
        self._stopping.set()
        await self._task

    async def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                await end_abandoned(self._database)
            except PyMongoError as error:
                if self._refused is not type(error):
                    self._refused = type(error)
                    log.info("abandoned transactions cannot be looked for", error=str(error))
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), LOOK_SECONDS)
