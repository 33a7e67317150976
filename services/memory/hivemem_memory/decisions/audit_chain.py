"""The rules of the audit chain: the content and hash of a link, and which changes of the feed still need one."""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple, cast

import orjson

from hivemem_contracts.changes import Change
from hivemem_contracts.errors import Unavailable
from hivemem_contracts.identifiers import microseconds_from_time
from hivemem_memory.entities.audit import CHAIN, CHAIN_ID, FEED_POSITION, ChainHead, FeedPosition, Link
from hivemem_memory.entities.memories import MEMORY
from hivemem_runtime.ledger.places import place_of
from hivemem_runtime.ledger.port import Append, Decision, Head, Heads, value_of

_HASHED_FIELDS: Final = tuple(sorted(set(Link.__slots__) - {"hash"}))
BEHIND_MS: Final = 200
SKEW_MICROSECONDS: Final = 60_000_000
"""The maximum clock skew between two workers."""


class FeedMark(NamedTuple):
    """The position of a chain on the feed: the feed's identity, and the sequence of the last message that the chain has
    processed.

    A change committed at `doubt_until` or earlier may already have a link from the previous feed. Its version decides.
    """

    feed: str | None = None
    sequence: int = 0
    doubt_until: int = 0

    def through(self, feed: str) -> int:
        """Return the processed sequence of this feed: 0 if the mark belongs to a feed with another identity."""
        return self.sequence if self.feed == feed else 0

    def is_doubtful(self, feed: str, at: int) -> bool:
        """Return whether a change of that time may have a link although its message comes after the mark."""
        return at <= self.doubt_until or self.feed not in (None, feed)


class AuditedWrite(NamedTuple):
    """A write as its change on the feed describes it."""

    sequence: int
    at: int
    actor: str
    operation: str
    namespace: str
    key: str
    from_version: int | None
    to_version: int
    request_id: str | None
    digest: str | None
    task_id: str | None = None

    @property
    def place(self) -> str:
        return place_of(self.namespace, self.key)


class Refusal(NamedTuple):
    """A refused write, or a refused part of one. Without an error it is a read that the audit records like a write."""

    actor: str
    operation: str
    request_id: str | None
    namespace: str | None
    key: str | None
    error: str | None
    task_id: str | None = None


def audited_write(tenant: str, change: Change, sequence: int) -> AuditedWrite | None:
    """Return the write that a change describes, or None if the body is not a change of one of the tenant's memories."""
    if change.entity != MEMORY.name or change.tenant != tenant or change.key is None or change.version < 1:
        return None
    value = cast("dict[str, Any]", change.value) if isinstance(change.value, dict) else {}
    digest: object = value.get("digest")
    return AuditedWrite(
        sequence,
        microseconds_from_time(change.at),
        change.actor,
        change.operation,
        change.namespace,
        change.key,
        change.previous_version,
        change.version,
        change.cause,
        digest if isinstance(digest, str) else None,
        task_of(value.get("source")),
    )


def task_of(source: Any) -> str | None:
    """Return the task that a memory's source names."""
    task = cast("dict[str, Any]", source).get("task_id") if isinstance(source, dict) else None
    return task if isinstance(task, str) else None


def hash_of(previous: str, link: Link) -> str:
    """Return the SHA-256 of the previous hash, in hexadecimal, followed by the link's fields as JSON with sorted keys.

    Absent fields are left out, so a new field does not change the hashes of old links.
    """
    said = {name: value for name in _HASHED_FIELDS if (value := getattr(link, name)) is not None}
    return sha256(previous.encode() + orjson.dumps(said)).hexdigest()


class LinkBatch(NamedTuple):
    """The changes of a tenant that are linked in one commit: all changes on the feed after a mark, through a sequence.

    `linked` holds the last linked version of each place with a doubtful change, read when the chain was at the mark.
    """

    feed: str
    after: FeedMark
    changes: Sequence[AuditedWrite]
    through: int
    linked: Mapping[str, int]


def link_changes(heads: Heads, batch: LinkBatch, now: int) -> Decision:
    """Link the changes that have no link yet. Versions of a place only grow, so an equal or lower one is skipped."""
    chain = heads(CHAIN, CHAIN_ID)
    mark = feed_mark(chain, heads(FEED_POSITION, CHAIN_ID))
    through, is_another = mark.through(batch.feed), mark.feed not in (None, batch.feed)
    moved = mark != batch.after
    if through < batch.after.through(batch.feed) or (is_another and moved):
        raise _moved(mark)
    news: list[AuditedWrite] = []
    linked = dict(batch.linked)
    for change in batch.changes:
        if change.sequence <= through:
            continue
        if moved and mark.is_doubtful(batch.feed, change.at):
            raise _moved(mark)
        if change.to_version > linked.get(change.place, 0):
            linked[change.place] = change.to_version
            news.append(change)
    appends = _linked(chain, (_write_link(change, batch.feed) for change in news))
    if is_another or batch.through > max(through, news[-1].sequence if news else 0):
        # A worker's clock may have been ahead by more than the skew.
        newest = chain.value.newest if chain is not None and chain.value is not None else 0
        doubt_until = max(now + SKEW_MICROSECONDS, newest) if is_another else mark.doubt_until
        appends.append(Append(FEED_POSITION, CHAIN_ID, FeedPosition(batch.feed, batch.through, doubt_until)))
    return appends


def link_refusals(heads: Heads, refusals: Sequence[Refusal], now: int) -> Decision:
    """Link refusals and exports, which cause no change on the feed."""
    return _linked(heads(CHAIN, CHAIN_ID), (_refused(refusal, now) for refusal in refusals))


def feed_mark(chain: Head[ChainHead] | None, taken: Head[FeedPosition] | None) -> FeedMark:
    last = value_of(chain)
    if taken is None or taken.value is None:
        return FeedMark() if last is None else FeedMark(last.feed, last.sequence)
    feed, sequence, doubt_until = taken.value.feed, taken.value.sequence, taken.value.doubt_until
    return FeedMark(feed, max(sequence, last.sequence) if last and last.feed == feed else sequence, doubt_until)


def _moved(mark: FeedMark) -> Unavailable:
    return Unavailable(f"the chain is at message {mark.sequence} of feed {mark.feed}", retry_after_ms=BEHIND_MS)


def _linked(head: Head[ChainHead] | None, links: Iterable[Link]) -> list[Append[Any, Any]]:
    position, previous = (
        (head.value.position, head.value.hash) if head is not None and head.value is not None else (0, "")
    )
    appends: list[Append[Any, Any]] = []
    for link in links:
        position += 1
        link.position = position
        link.hash = previous = hash_of(previous, link)
        appends.append(Append(CHAIN, CHAIN_ID, link))
    return appends


def _write_link(change: AuditedWrite, feed: str) -> Link:
    return Link(
        0,
        change.at,
        change.actor,
        change.operation,
        "done",
        "",
        change.namespace,
        change.key,
        change.from_version,
        change.to_version,
        change.request_id,
        digest=change.digest,
        feed=feed,
        sequence=change.sequence,
        task_id=change.task_id,
    )


def _refused(refusal: Refusal, now: int) -> Link:
    return Link(
        0,
        now,
        refusal.actor,
        refusal.operation,
        "done" if refusal.error is None else "refused",
        "",
        refusal.namespace,
        refusal.key,
        request_id=refusal.request_id,
        error=refusal.error,
        task_id=refusal.task_id,
    )
