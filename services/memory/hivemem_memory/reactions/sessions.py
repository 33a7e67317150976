"""The reaction to the end of a session: its temporary memories are deleted with it. A deletion of the session erases
all of its memories, and removes it from the sources of others."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final, cast

from hivemem_contracts.changes import Change
from hivemem_contracts.identifiers import microseconds_from_time
from hivemem_memory.decisions.expiry import end_with_session, unlink_session
from hivemem_memory.endpoints.erasures import SKEW_MICROSECONDS, Eraser
from hivemem_memory.entities.memories import MEMORY
from hivemem_runtime.bus.reactions.runner import Reaction, ReceivedChange
from hivemem_runtime.ledger.pages import pages
from hivemem_runtime.ledger.places import below
from hivemem_runtime.ledger.port import Ledger, Write, system_write

NAME: Final = "sessions"
SLICE: Final = 100


def sessions_reaction(ledger: Ledger, eraser: Eraser) -> Reaction:
    async def follow(changes: Sequence[ReceivedChange]) -> None:
        for received in changes:
            change = received.change
            at = microseconds_from_time(change.at)
            # A namespace names a session by one segment.
            has_memories = ":" not in change.namespace
            if change.operation == "status_changed" and _status(change) == "terminated" and has_memories:
                await end_temporary(ledger, change, at + SKEW_MICROSECONDS)
            elif change.operation == "deleted":
                if has_memories:
                    await eraser.erase_session(change.tenant, change.namespace, change.actor, change.cause, at)
                await unlink_sources(ledger, change, at + SKEW_MICROSECONDS)

    return Reaction(NAME, ("hive.chg.*.session.*",), follow)


async def end_temporary(ledger: Ledger, change: Change, latest: int) -> None:
    """Delete living temporary memories created at `latest` or earlier. A redelivery does nothing more."""
    low, high = below(f"temp:{change.namespace}")
    async for found in pages(
        lambda cursor: ledger.covered(
            MEMORY, change.tenant, "live", equals={}, low=low, high=high, cursor=cursor, limit=SLICE
        )
    ):
        await asyncio.gather(*(ledger.commit(_end(change, memory.id, latest)) for memory in found))


async def unlink_sources(ledger: Ledger, change: Change, latest: int) -> None:
    """Remove a deleted session from the sources of memories. A redelivery does nothing more."""
    session_id = change.namespace
    async for found in pages(
        lambda cursor: ledger.covered(
            MEMORY, change.tenant, "source_session", equals={"source_session": session_id}, cursor=cursor, limit=SLICE
        )
    ):
        await asyncio.gather(*(ledger.commit(_unlink(change, memory.id, latest)) for memory in found))


def _unlink(change: Change, place: str, latest: int) -> Write:
    return system_write(
        change.tenant,
        MEMORY,
        place,
        lambda heads, now: unlink_session(heads, place, change.namespace, latest),
        actor=change.actor,
        cause=change.cause,
    )


def _end(change: Change, place: str, latest: int) -> Write:
    return system_write(
        change.tenant,
        MEMORY,
        place,
        lambda heads, now: end_with_session(heads, place, latest),
        actor=change.actor,
        # A redelivery must not delete a memory that was restored in the meantime.
        once=f"ended:{change.namespace}:{change.version}:{latest}",
        cause=change.cause,
    )


def _status(change: Change) -> Any:
    return cast("dict[str, Any]", change.value).get("status") if isinstance(change.value, dict) else None
