"""The rules of the chain: what a link says, how its hash follows from the one before, and what is taken up once."""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple, cast

import orjson

from hivemem_contracts.changes import Change
from hivemem_contracts.errors import Unavailable
from hivemem_contracts.identifiers import microseconds_from_time
from hivemem_memory.entities.audit import CHAIN, CHAIN_ID, TAKEN_UP, ChainHead, Link, TakenUp
from hivemem_memory.entities.memories import MEMORY
from hivemem_runtime.ledger.places import place_of
from hivemem_runtime.ledger.port import Append, Decision, Head, Heads, value_of

_SAID: Final = tuple(sorted(set(Link.__slots__) - {"hash"}))
BEHIND_MS: Final = 200
SKEW_MICROSECONDS: Final = 60_000_000
"""How far the clocks of two workers are apart at most."""


class Mark(NamedTuple):
    """The position of a chain on the feed: the feed's identity, and the sequence of the last message it has taken up.

    A change that was committed at `doubt_until` or earlier may already have a link from the previous feed. Its version
    decides.
    """

    feed: str | None = None
    sequence: int = 0
    doubt_until: int = 0

    def through(self, feed: str) -> int:
        """Return the sequence on this feed: 0 if the mark belongs to a feed with another identity."""
        return self.sequence if self.feed == feed else 0

    def is_doubtful(self, feed: str, at: int) -> bool:
        """Return whether a change of that time may have a link although its message comes after the mark."""
        return at <= self.doubt_until or self.feed not in (None, feed)


class Done(NamedTuple):
    """What a change says of a write, and where it stands on the feed."""

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

    @property
    def place(self) -> str:
        return place_of(self.namespace, self.key)


class Refusal(NamedTuple):
    """A write that was refused, or one of its parts; or, without an error, a read that is told like a write."""

    actor: str
    operation: str
    request_id: str | None
    namespace: str | None
    key: str | None
    error: str | None


def done_of(tenant: str, change: Change, sequence: int) -> Done | None:
    """Return None if the body is not a change of one of the tenant's memories, whatever its subject says."""
    if change.entity != MEMORY.name or change.tenant != tenant or change.key is None or change.version < 1:
        return None
    value = cast("dict[str, Any]", change.value) if isinstance(change.value, dict) else {}
    digest: object = value.get("digest")
    return Done(
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
    )


def hash_of(previous: str, link: Link) -> str:
    """SHA-256 over the hash before, in hexadecimal, and the JSON object of all that the link says, by sorted keys.

    What it does not say is left out: a field that is added one day changes no hash of before.
    """
    said = {name: value for name in _SAID if (value := getattr(link, name)) is not None}
    return sha256(previous.encode() + orjson.dumps(said)).hexdigest()


class Taking(NamedTuple):
    """The changes of a tenant that are linked in one commit: every one on the feed after a mark, through a sequence.

    `linked` holds the last linked version of each place with a doubtful change, read when the chain was at the mark.
    """

    feed: str
    after: Mark
    changes: Sequence[Done]
    through: int
    linked: Mapping[str, int]


def take_up(heads: Heads, taking: Taking, now: int) -> Decision:
    """Link the changes that have no link yet. Versions of a place only grow, so an equal or lower one is skipped."""
    chain = heads(CHAIN, CHAIN_ID)
    mark = mark_of(chain, heads(TAKEN_UP, CHAIN_ID))
    taken, is_another = mark.through(taking.feed), mark.feed not in (None, taking.feed)
    moved = mark != taking.after
    if taken < taking.after.through(taking.feed) or (is_another and moved):
        raise _moved(mark)
    news: list[Done] = []
    linked = dict(taking.linked)
    for change in taking.changes:
        if change.sequence <= taken:
            continue
        if moved and mark.is_doubtful(taking.feed, change.at):
            raise _moved(mark)
        if change.to_version > linked.get(change.place, 0):
            linked[change.place] = change.to_version
            news.append(change)
    appends = _linked(chain, (_done(change, taking.feed) for change in news))
    if is_another or taking.through > max(taken, news[-1].sequence if news else 0):
        doubt_until = now + SKEW_MICROSECONDS if is_another else mark.doubt_until
        appends.append(Append(TAKEN_UP, CHAIN_ID, TakenUp(taking.feed, taking.through, doubt_until)))
    return appends


def refuse(heads: Heads, refusals: Sequence[Refusal], now: int) -> Decision:
    """Link on what no change tells of."""
    return _linked(heads(CHAIN, CHAIN_ID), (_refused(refusal, now) for refusal in refusals))


def mark_of(chain: Head[ChainHead] | None, taken: Head[TakenUp] | None) -> Mark:
    last = value_of(chain)
    if taken is None or taken.value is None:
        return Mark() if last is None else Mark(last.feed, last.sequence)
    feed, sequence, doubt_until = taken.value.feed, taken.value.sequence, taken.value.doubt_until
    return Mark(feed, max(sequence, last.sequence) if last and last.feed == feed else sequence, doubt_until)


def _moved(mark: Mark) -> Unavailable:
    return Unavailable(f"the chain stands at {mark.sequence} of feed {mark.feed} by now", retry_after_ms=BEHIND_MS)


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


def _done(change: Done, feed: str) -> Link:
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
    )
