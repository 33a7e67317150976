"""What the feed tells of memories is taken up into the chains: in its order, each version once.

Workers share the reaction, so a batch may begin behind what another worker has got and not linked yet, or never will,
because it died: that is read from the stream itself, after a moment. So is, at once, what is missing within a batch,
because workers that wait for changes get them in turns.

The feed may lose its tail and reuse the sequences for other changes. A batch that was received before the loss is
recognized by the time when its last message was stored, and the stream is read instead of it. A feed with another
identity is read again from its first message, and versions decide which changes have a link already.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

import structlog

from hivemem_contracts.changes import Change
from hivemem_contracts.errors import InvalidRequest, Unavailable
from hivemem_contracts.subjects import decode_token, encode_token
from hivemem_memory.decisions.auditing import Done, Mark, Taking, done_of, take_up
from hivemem_memory.endpoints.auditing import REACTION, Trail
from hivemem_memory.endpoints.links import linked_versions, read_mark
from hivemem_memory.entities.audit import CHAIN, CHAIN_ID, TAKEN_UP
from hivemem_memory.entities.memories import MEMORY
from hivemem_runtime.bus.reacting import Reaction, ReceivedChange
from hivemem_runtime.ledger.port import Ledger, system_write

log = structlog.get_logger("hivemem.memory")

BATCH: Final = 500
GATHER_SECONDS: Final = 0.05
"""A change may be that much older before it is linked; then a commit is shared by many."""
ACK_WAIT_SECONDS: Final = 5.0
"""How long the chains stand still where a worker dies with a batch."""
OTHERS_SECONDS: Final = 1.0
"""How long another worker has for what it got before."""
POLL_SECONDS: Final = 0.02
AGAIN_MS: Final = 100
TENANTS_AT_ONCE: Final = 16


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
        self._feed: str | None = None
        """The identity of the feed that this worker has brought every chain to."""

    async def handle(self, changes: Sequence[ReceivedChange]) -> None:
        feed = await self._trail.feed.identity()
        if feed != self._feed:
            await self._begin(feed)
            self._feed = feed
        until = asyncio.get_running_loop().time() + OTHERS_SECONDS
        found: dict[str, list[list[ReceivedChange]]] = {}
        for row in _rows(changes):
            of_tenants: dict[str, list[ReceivedChange]] = {}
            for received in row:
                of_tenants.setdefault(received.subject.split(".", 3)[2], []).append(received)
            for token, part in of_tenants.items():
                found.setdefault(token, []).append(part)
        tenants = [(tenant, rows) for token, rows in found.items() if (tenant := _tenant_of(token)) is not None]
        if await self._trail.feed.holds(changes[-1].sequence, changes[-1].stored_at):
            work = [self._take_up(feed, tenant, rows, until) for tenant, rows in tenants]
        else:
            log.warning("the feed has other changes by now than were received", sequence=changes[-1].sequence)
            work = [self._take_up_stored(feed, tenant) for tenant, _ in tenants]
        await _all(work)

    async def _begin(self, feed: str) -> None:
        """Take up a feed with another identity for every tenant, because acknowledged messages are not delivered
        again."""
        tenants = await self._ledger.tenants(CHAIN)
        for start in range(0, len(tenants), TENANTS_AT_ONCE):
            some = tenants[start : start + TENANTS_AT_ONCE]
            marks = await asyncio.gather(*(read_mark(self._ledger, name) for name in some))
            others = [name for name, mark in zip(some, marks, strict=True) if mark.feed not in (None, feed)]
            await _all([self._take_up_stored(feed, _Tenant.of(encode_token(name))) for name in others])

    async def _take_up(self, feed: str, tenant: "_Tenant", rows: list[list[ReceivedChange]], until: float) -> None:
        while rows:
            mark = await self._wait_for_others(feed, tenant, rows[0][0].sequence, until)
            rows = _behind(mark.through(feed), rows)
            if rows:
                part, rows = await self._fill(tenant, mark.through(feed), rows)
                await self._link(feed, tenant, mark, part)

    async def _take_up_stored(self, feed: str, tenant: "_Tenant") -> None:
        """Take up every change of a tenant that the stream holds now."""
        last = await self._trail.feed.last(tenant.subject)
        whole = last is None
        while last is not None and not whole:
            mark = await read_mark(self._ledger, tenant.name)
            part = await self._between(tenant, mark.through(feed), last.sequence + 1)
            await self._link(feed, tenant, mark, part)
            whole = part.whole

    async def _wait_for_others(self, feed: str, tenant: "_Tenant", first: int, until: float) -> Mark:
        """Wait a moment until the chain has everything before a message. Return how far the chain is then."""
        while True:
            mark = await read_mark(self._ledger, tenant.name)
            through = mark.through(feed)
            if through >= first or asyncio.get_running_loop().time() >= until or mark.feed not in (None, feed):
                return mark
            missed = await self._trail.feed.next(tenant.subject, through)
            if missed is None or missed.sequence >= first:
                return mark
            await asyncio.sleep(POLL_SECONDS)

    async def _fill(
        self, tenant: "_Tenant", through: int, rows: list[list[ReceivedChange]]
    ) -> "tuple[_Part, list[list[ReceivedChange]]]":
        """Return the changes from there on that fit one commit, gaps read from the stream, and the rows left over."""
        after = [through, *(row[-1].sequence for row in rows[:-1])]
        gaps = await asyncio.gather(
            *(self._between(tenant, start, row[0].sequence) for start, row in zip(after, rows, strict=True))
        )
        changes: list[Done] = []
        was_read = False
        for place, (gap, row) in enumerate(zip(gaps, rows, strict=True)):
            changes += gap.changes
            was_read = was_read or gap.was_read
            if not gap.whole:
                return _Part(changes, gap.through, whole=False, was_read=True), rows[place:]
            for received in row:
                changes += _done(tenant, received.change, received.sequence)
        return _Part(changes, rows[-1][-1].sequence, whole=True, was_read=was_read), []

    async def _between(self, tenant: "_Tenant", after: int, before: int) -> "_Part":
        """Read at most a batch of messages that another worker got."""
        changes: list[Done] = []
        through = after
        for _ in range(BATCH):
            missed = await self._trail.feed.next(tenant.subject, through)
            if missed is None or missed.sequence >= before:
                return _Part(changes, through, whole=True, was_read=through > after)
            through = missed.sequence
            change = missed.change()
            if change is not None:
                changes += _done(tenant, change, through)
        return _Part(changes, through, whole=False, was_read=True)

    async def _link(self, feed: str, tenant: "_Tenant", mark: Mark, part: "_Part") -> None:
        if part.through <= mark.through(feed):
            return
        doubtful = {change.place for change in part.changes if mark.is_doubtful(feed, change.at)}
        linked = await linked_versions(self._ledger, tenant.name, doubtful)
        changes = [change for change in part.changes if change.to_version > linked.get(change.place, 0)]
        if not all(map(_is_whole, changes)):
            changes = await asyncio.gather(*(self._with_digest(tenant.name, change) for change in changes))
        if (doubtful or part.was_read) and await self._trail.feed.identity() != feed:
            raise Unavailable("the feed has another identity by now", retry_after_ms=AGAIN_MS)
        taking = Taking(feed, mark, changes, part.through, linked)
        await self._ledger.commit(
            system_write(
                tenant.name, CHAIN, CHAIN_ID, lambda heads, now: take_up(heads, taking, now), ((TAKEN_UP, CHAIN_ID),)
            )
        )

    async def _with_digest(self, tenant: str, change: Done) -> Done:
        """What was too large for the feed stands in the memory itself, unless it is erased by now."""
        if _is_whole(change):
            return change
        version = await self._ledger.record(MEMORY, tenant, change.place, change.to_version)
        return change if version is None else change._replace(digest=version.value.digest)


async def _all(work: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Raises the first error once all are done: the next attempt must not meet the rest of this one."""
    for result in await asyncio.gather(*work, return_exceptions=True):
        if result is not None:
            raise result


def _is_whole(change: Done) -> bool:
    return change.digest is not None or change.operation == "erased"


def _done(tenant: "_Tenant", change: Change, sequence: int) -> list[Done]:
    done = done_of(tenant.name, change, sequence)
    if done is None:
        log.warning("a change is not of the memory that its subject names", sequence=sequence)
        return []
    return [done]


def _tenant_of(token: str) -> "_Tenant | None":
    try:
        return _Tenant.of(token)
    except InvalidRequest:
        log.warning("a subject of the feed names no tenant", token=token)
        return None


class _Tenant(NamedTuple):
    """A tenant, and the subject that matches the changes of its memories."""

    name: str
    subject: str

    @classmethod
    def of(cls, token: str) -> "_Tenant":
        """Raises `InvalidRequest` if the token is malformed."""
        return cls(decode_token(token), f"hive.chg.{token}.{MEMORY.name}.>")


class _Part(NamedTuple):
    """Changes of a tenant through a sequence. `whole` if none was left out before the requested end; `was_read` if some
    came from the stream instead of the batch."""

    changes: list[Done]
    through: int
    whole: bool
    was_read: bool


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
