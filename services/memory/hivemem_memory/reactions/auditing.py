"""What the feed tells of memories is taken up into the chains: in its order, each change once.

Workers share the reaction, so a batch may begin behind what another worker has got and not linked yet, or never will,
because it died: that is read from the stream itself, after a moment. So is, at once, what is missing within a batch,
because workers that wait for changes get them in turns.
"""

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import structlog
from pydantic import ValidationError

from hivemem_contracts.changes import Change
from hivemem_contracts.subjects import decode_token
from hivemem_memory.decisions.auditing import Done, done_of, take_up, taken_up
from hivemem_memory.endpoints.auditing import REACTION, Trail
from hivemem_memory.entities.audit import CHAIN, CHAIN_ID
from hivemem_memory.entities.memories import MEMORY
from hivemem_runtime.bus.reacting import Reaction, ReceivedChange
from hivemem_runtime.ledger.places import place_of
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

    async def _take_up(self, feed: str, token: str, rows: list[list[ReceivedChange]], until: float) -> None:
        tenant = decode_token(token)
        subject = f"hive.chg.{token}.{MEMORY.name}.>"
        while rows:
            through = await self._wait_for_others(feed, tenant, subject, rows[0][0].sequence, until)
            rows = _behind(through, rows)
            if rows:
                changes, rows = await self._fill(subject, through, rows)
                await self._link(feed, tenant, through, changes)

    async def _wait_for_others(self, feed: str, tenant: str, subject: str, first: int, until: float) -> int:
        """For a moment, until the chain has all that the stream has before a message. Answers how far it is then."""
        while True:
            through = taken_up(await self._ledger.head(CHAIN, tenant, CHAIN_ID), feed)
            if through >= first or asyncio.get_running_loop().time() >= until:
                return through
            missed = await self._trail.feed.next(subject, through)
            if missed is None or missed.sequence >= first:
                return through
            await asyncio.sleep(POLL_SECONDS)

    async def _fill(
        self, subject: str, through: int, rows: list[list[ReceivedChange]]
    ) -> tuple[list[Done], list[list[ReceivedChange]]]:
        """All that the stream has from there on, as far as it can be linked at once; and the rows that are left."""
        after = [through, *(row[-1].sequence for row in rows[:-1])]
        gaps = await asyncio.gather(
            *(self._between(subject, start, row[0].sequence) for start, row in zip(after, rows, strict=True))
        )
        changes: list[Done] = []
        for place, (gap, row) in enumerate(zip(gaps, rows, strict=True)):
            changes += gap.changes
            if not gap.whole:
                return changes, rows[place:]
            changes += [done_of(received.change, received.sequence) for received in row]
        return changes, []

    async def _between(self, subject: str, after: int, before: int) -> "_Gap":
        """What another worker got: a batch of it at most."""
        changes: list[Done] = []
        while len(changes) < BATCH:
            missed = await self._trail.feed.next(subject, after)
            if missed is None or missed.sequence >= before:
                return _Gap(changes, whole=True)
            after = missed.sequence
            try:
                changes.append(done_of(Change.model_validate_json(missed.data), after))
            except ValidationError:
                log.warning("a message of the feed is no change", sequence=after)
        return _Gap(changes, whole=False)

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


class _Gap(NamedTuple):
    """What lies between two messages; or, not whole, the beginning of it."""

    changes: list[Done]
    whole: bool


def _behind(through: int, rows: Sequence[list[ReceivedChange]]) -> list[list[ReceivedChange]]:
    left = ([received for received in row if received.sequence > through] for row in rows)
    return [row for row in left if row]


def _rows(changes: Sequence[ReceivedChange]) -> list[list[ReceivedChange]]:
    """Those between which no worker got anything, nor has got it before."""
    rows = [[changes[0]]]
    for before, after in pairwise(changes):
        if after.delivery == before.delivery + 1 and not before.again and not after.again:
            rows[-1].append(after)
        else:
            rows.append([after])
    return rows
