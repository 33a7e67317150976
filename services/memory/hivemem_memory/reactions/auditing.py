"""What the feed tells of memories is taken up into the chains: in its order, each change once.

Workers share the reaction, so a batch may begin behind what another worker has got and not linked yet, or never will,
because it died; and so may any part of a batch, as two workers that wait get the next changes in turns. What lies
between a chain and what comes next is therefore read from the stream itself, after a moment.
"""

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import structlog
from pydantic import ValidationError

from hivemem_contracts.changes import Change
from hivemem_contracts.subjects import decode_token
from hivemem_memory.decisions.auditing import Done, done_of, take_up, taken_up
from hivemem_memory.endpoints.auditing import REACTION, Trail
from hivemem_memory.entities.audit import CHAIN, CHAIN_ID
from hivemem_memory.entities.memories import MEMORY
from hivemem_memory.entities.places import place_of
from hivemem_runtime.bus.reacting import Reaction, ReceivedChange
from hivemem_runtime.ledger.port import Ledger, Write

log = structlog.get_logger("hivemem.memory")

BATCH: Final = 500
GATHER_SECONDS: Final = 0.05
"""A change may be that much older before it is linked; then a commit is shared by many."""
ACK_WAIT_SECONDS: Final = 5.0
"""How long the chains stand still where a worker dies with a batch."""
OTHERS_SECONDS: Final = 1.0
"""How long another worker has for what it got before."""
POLL_SECONDS: Final = 0.02
ACTOR: Final = "hivemem"


def audit_reaction(ledger: Ledger, trail: Trail) -> Reaction:
    taking_up = TakingUp(ledger, trail)
    return Reaction(
        REACTION,
        (f"hive.chg.*.{MEMORY.name}.>",),
        taking_up.handle,
        batch=BATCH,
        gather_seconds=GATHER_SECONDS,
        one_batch=True,
        ack_wait_seconds=ACK_WAIT_SECONDS,
    )


class TakingUp:
    def __init__(self, ledger: Ledger, trail: Trail) -> None:
        self._ledger = ledger
        self._trail = trail

    async def handle(self, changes: Sequence[ReceivedChange]) -> None:
        feed = await self._trail.feed.identity()
        until = asyncio.get_running_loop().time() + OTHERS_SECONDS
        found: dict[str, list[list[ReceivedChange]]] = {}
        for row in _rows(changes):
            of_tenants: dict[str, list[ReceivedChange]] = {}
            for received in row:
                of_tenants.setdefault(received.subject.split(".", 3)[2], []).append(received)
            for token, part in of_tenants.items():
                found.setdefault(token, []).append(part)
        await asyncio.gather(*(self._take_up(feed, token, rows, until) for token, rows in found.items()))

    async def _take_up(self, feed: str, token: str, rows: Sequence[list[ReceivedChange]], until: float) -> None:
        tenant = decode_token(token)
        subject = f"hive.chg.{token}.{MEMORY.name}.>"
        for row in await self._join(subject, rows):
            after = await self._close_gap(feed, tenant, subject, row[0].sequence, until)
            await self._link(feed, tenant, after, [done_of(received.change, received.sequence) for received in row])

    async def _join(self, subject: str, rows: Sequence[list[ReceivedChange]]) -> list[list[ReceivedChange]]:
        """As one those of a tenant between which the stream has nothing of it."""
        following = await asyncio.gather(*(self._trail.feed.next(subject, row[-1].sequence) for row in rows[:-1]))
        joined = [rows[0]]
        for row, next_one in zip(rows[1:], following, strict=True):
            if next_one is not None and next_one.sequence == row[0].sequence:
                joined[-1] += row
            else:
                joined.append(row)
        return joined

    async def _close_gap(self, feed: str, tenant: str, subject: str, first: int, until: float) -> int:
        """Link what the stream has behind the chain and before a message. Answers how far the chain is then."""
        looked_at = 0
        while True:
            through = taken_up(await self._ledger.head(CHAIN, tenant, CHAIN_ID), feed)
            looked_at = max(looked_at, through)
            missed = await self._trail.feed.next(subject, looked_at) if looked_at < first else None
            if missed is None or missed.sequence >= first:
                return through
            if asyncio.get_running_loop().time() >= until:
                looked_at = await self._link_missed(feed, tenant, subject, through, looked_at, first)
            else:
                await asyncio.sleep(POLL_SECONDS)

    async def _link_missed(
        self, feed: str, tenant: str, subject: str, through: int, looked_at: int, before: int
    ) -> int:
        """Up to a batch of what another worker got and did not link. Answers how far that goes."""
        changes: list[Done] = []
        while len(changes) < BATCH:
            missed = await self._trail.feed.next(subject, looked_at)
            if missed is None or missed.sequence >= before:
                break
            looked_at = missed.sequence
            try:
                changes.append(done_of(Change.model_validate_json(missed.data), looked_at))
            except ValidationError:
                log.warning("a message of the feed is no change", sequence=looked_at)
        await self._link(feed, tenant, through, changes)
        log.info("changes that another worker had got are linked", tenant=tenant, changes=len(changes))
        return looked_at

    async def _link(self, feed: str, tenant: str, after: int, changes: Sequence[Done]) -> None:
        done = changes
        if not all(map(_is_whole, changes)):
            done = await asyncio.gather(*(self._with_digest(tenant, change) for change in changes))
        await self._ledger.commit(
            Write(tenant, ACTOR, CHAIN, CHAIN_ID, lambda heads, now: take_up(heads, feed, after, done))
        )

    async def _with_digest(self, tenant: str, change: Done) -> Done:
        """What was too large for the feed stands in the memory itself, unless it is erased by now."""
        if _is_whole(change):
            return change
        version = await self._ledger.record(MEMORY, tenant, place_of(change.namespace, change.key), change.to_version)
        return change if version is None else change._replace(digest=version.value.digest)


def _is_whole(change: Done) -> bool:
    return change.digest is not None or change.operation == "erased"


def _rows(changes: Sequence[ReceivedChange]) -> list[list[ReceivedChange]]:
    """Those between which no worker got anything, nor has got it before."""
    rows = [[changes[0]]]
    for before, after in pairwise(changes):
        if after.delivery == before.delivery + 1 and not before.again and not after.again:
            rows[-1].append(after)
        else:
            rows.append([after])
    return rows
