"""The reaction that links changes of memories into the audit chains, in feed order and each version once.

Workers share the reaction. The messages before a batch may be with another worker, which may have died: they are read
from the stream after a short wait. Gaps within a batch are read at once, because the workers receive messages in turns.

The feed may lose its tail and reuse the sequences. A batch from before the loss is recognized by the time at which its
last message was stored, and the stream is read instead. A feed with another identity is read from its first message,
and versions decide which changes already have a link.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

import structlog

from hivemem_contracts.changes import Change
from hivemem_contracts.errors import InvalidRequest, Unavailable
from hivemem_contracts.subjects import decode_token, encode_token
from hivemem_memory.decisions.audit_chain import AuditedWrite, FeedMark, LinkBatch, audited_write, link_changes, task_of
from hivemem_memory.endpoints.audit_trail import REACTION, AuditTrail
from hivemem_memory.endpoints.chain_links import linked_versions, read_mark
from hivemem_memory.entities.audit import CHAIN, CHAIN_ID, FEED_POSITION
from hivemem_memory.entities.memories import MEMORY
from hivemem_runtime.bus.reactions.runner import Reaction, ReceivedChange
from hivemem_runtime.ledger.port import Ledger, system_write

log = structlog.get_logger("hivemem.memory")

BATCH: Final = 500
GATHER_SECONDS: Final = 0.05
"""How long a change may wait for others that share its commit."""
ACK_WAIT_SECONDS: Final = 5.0
"""How long the chains wait if a worker dies with a batch."""
OTHERS_SECONDS: Final = 1.0
"""How long another worker has to link its earlier messages."""
POLL_SECONDS: Final = 0.02
AGAIN_MS: Final = 100
TENANTS_AT_ONCE: Final = 16


def audit_reaction(ledger: Ledger, trail: AuditTrail) -> Reaction:
    taking_up = FeedLinker(ledger, trail)
    return Reaction(
        REACTION,
        (f"hive.chg.*.{MEMORY.name}.>",),
        taking_up.handle,
        batch=BATCH,
        gather_seconds=GATHER_SECONDS,
        one_batch=True,
        ack_wait_seconds=ACK_WAIT_SECONDS,
    )


class FeedLinker:
    def __init__(self, ledger: Ledger, trail: AuditTrail) -> None:
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
            work = [self._link_batch(feed, tenant, rows, until) for tenant, rows in tenants]
        else:
            log.warning("the feed lost a batch after it was received", sequence=changes[-1].sequence)
            work = [self._link_stored(feed, tenant) for tenant, _ in tenants]
        await _all(work)

    async def _begin(self, feed: str) -> None:
        """Process a feed with another identity for every tenant, because acknowledged messages are not redelivered."""
        tenants = await self._ledger.tenants(CHAIN)
        for start in range(0, len(tenants), TENANTS_AT_ONCE):
            some = tenants[start : start + TENANTS_AT_ONCE]
            marks = await asyncio.gather(*(read_mark(self._ledger, name) for name in some))
            others = [name for name, mark in zip(some, marks, strict=True) if mark.feed not in (None, feed)]
            await _all([self._link_stored(feed, _Tenant.of(encode_token(name))) for name in others])

    async def _link_batch(self, feed: str, tenant: "_Tenant", rows: list[list[ReceivedChange]], until: float) -> None:
        while rows:
            mark = await self._wait_for_others(feed, tenant, rows[0][0].sequence, until)
            rows = _behind(mark.through(feed), rows)
            if rows:
                part, rows = await self._fill(tenant, mark.through(feed), rows)
                await self._link(feed, tenant, mark, part)

    async def _link_stored(self, feed: str, tenant: "_Tenant") -> None:
        """Link every change of a tenant that the stream holds now."""
        last = await self._trail.feed.last(tenant.subject)
        whole = last is None
        while last is not None and not whole:
            mark = await read_mark(self._ledger, tenant.name)
            part = await self._between(tenant, mark.through(feed), last.sequence + 1)
            await self._link(feed, tenant, mark, part)
            whole = part.whole

    async def _wait_for_others(self, feed: str, tenant: "_Tenant", first: int, until: float) -> FeedMark:
        """Wait briefly until the chain has everything before a message, and return the chain's position then."""
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
        """Return the next changes that fit one commit, with gaps read from the stream, and the remaining rows."""
        after = [through, *(row[-1].sequence for row in rows[:-1])]
        gaps = await asyncio.gather(
            *(self._between(tenant, start, row[0].sequence) for start, row in zip(after, rows, strict=True))
        )
        changes: list[AuditedWrite] = []
        was_read = False
        for place, (gap, row) in enumerate(zip(gaps, rows, strict=True)):
            changes += gap.changes
            was_read = was_read or gap.was_read
            if not gap.whole:
                return _Part(changes, gap.through, whole=False, was_read=True), rows[place:]
            for received in row:
                changes += _write_link(tenant, received.change, received.sequence)
        return _Part(changes, rows[-1][-1].sequence, whole=True, was_read=was_read), []

    async def _between(self, tenant: "_Tenant", after: int, before: int) -> "_Part":
        """Read at most a batch of messages that another worker received."""
        changes: list[AuditedWrite] = []
        through = after
        for _ in range(BATCH):
            missed = await self._trail.feed.next(tenant.subject, through)
            if missed is None or missed.sequence >= before:
                return _Part(changes, through, whole=True, was_read=through > after)
            through = missed.sequence
            change = missed.change()
            if change is not None:
                changes += _write_link(tenant, change, through)
        return _Part(changes, through, whole=False, was_read=True)

    async def _link(self, feed: str, tenant: "_Tenant", mark: FeedMark, part: "_Part") -> None:
        if part.through <= mark.through(feed):
            return
        doubtful = {change.place for change in part.changes if mark.is_doubtful(feed, change.at)}
        linked = await linked_versions(self._ledger, tenant.name, doubtful)
        changes = [change for change in part.changes if change.to_version > linked.get(change.place, 0)]
        if not all(map(_is_whole, changes)):
            changes = await asyncio.gather(*(self._with_digest(tenant.name, change) for change in changes))
        if (doubtful or part.was_read) and await self._trail.feed.identity() != feed:
            raise Unavailable("the identity of the feed has changed", retry_after_ms=AGAIN_MS)
        batch = LinkBatch(feed, mark, changes, part.through, linked)
        await self._ledger.commit(
            system_write(
                tenant.name,
                CHAIN,
                CHAIN_ID,
                lambda heads, now: link_changes(heads, batch, now),
                ((FEED_POSITION, CHAIN_ID),),
            )
        )

    async def _with_digest(self, tenant: str, change: AuditedWrite) -> AuditedWrite:
        """Read what a change lacks that was too large for the feed from the memory, unless it is erased."""
        if _is_whole(change):
            return change
        version = await self._ledger.record(MEMORY, tenant, change.place, change.to_version)
        if version is None:
            return change
        return change._replace(digest=version.value.digest, task_id=task_of(version.value.source))


async def _all(work: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Await all, then raise the first error. A retry must not run beside the rest of this attempt."""
    for result in await asyncio.gather(*work, return_exceptions=True):
        if result is not None:
            raise result


def _is_whole(change: AuditedWrite) -> bool:
    return change.digest is not None or change.operation == "erased"


def _write_link(tenant: "_Tenant", change: Change, sequence: int) -> list[AuditedWrite]:
    done = audited_write(tenant.name, change, sequence)
    if done is None:
        log.warning("ignored a change whose body does not match its subject", sequence=sequence)
        return []
    return [done]


def _tenant_of(token: str) -> "_Tenant | None":
    try:
        return _Tenant.of(token)
    except InvalidRequest:
        log.warning("ignored a change whose subject names no tenant", token=token)
        return None


class _Tenant(NamedTuple):
    """A tenant, and the subject that matches the changes of its memories."""

    name: str
    subject: str

    @classmethod
    def of(cls, token: str) -> "_Tenant":
        """Return the tenant of a subject token. Raises `InvalidRequest` if the token is malformed."""
        return cls(decode_token(token), f"hive.chg.{token}.{MEMORY.name}.>")


class _Part(NamedTuple):
    """Changes of a tenant through a sequence. `whole` says that it has all changes up to the requested end;
    `was_read` that some were read from the stream."""

    changes: list[AuditedWrite]
    through: int
    whole: bool
    was_read: bool


def _behind(through: int, rows: Sequence[list[ReceivedChange]]) -> list[list[ReceivedChange]]:
    left = ([received for received in row if received.sequence > through] for row in rows)
    return [row for row in left if row]


def _rows(changes: Sequence[ReceivedChange]) -> list[list[ReceivedChange]]:
    """Split changes into rows without gaps: no other worker received a message between two changes of a row."""
    rows = [[changes[0]]]
    for before, after in pairwise(changes):
        if after.delivery == before.delivery + 1 and not before.again and not after.again:
            rows[-1].append(after)
        else:
            rows.append([after])
    return rows
