"""The rules of the chain: what a link says, how its hash follows from the one before, and what is taken up once."""

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple, cast

import orjson

from hivemem_contracts.changes import Change
from hivemem_contracts.errors import Unavailable
from hivemem_contracts.identifiers import microseconds_from_time
from hivemem_memory.entities.audit import CHAIN, CHAIN_ID, ChainHead, Link
from hivemem_runtime.ledger.port import Append, Decision, Head, Heads

_SAID: Final = tuple(sorted(set(Link.__slots__) - {"hash"}))
BEHIND_MS: Final = 200


class Done(NamedTuple):
    """What a change says of a write, and where it stands on the feed."""

    sequence: int
    at: int
    actor: str
    operation: str
    namespace: str
    key: str | None
    from_version: int | None
    to_version: int
    request_id: str | None
    digest: str | None


class Refusal(NamedTuple):
    """A write that was refused, or one of its parts; or, without an error, a read that is told like a write."""

    actor: str
    operation: str
    request_id: str | None
    namespace: str | None
    key: str | None
    error: str | None


def done_of(change: Change, sequence: int) -> Done:
    value = cast("dict[str, Any]", change.value) if isinstance(change.value, dict) else {}
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
        value.get("digest"),
    )


def hash_of(previous: str, link: Link) -> str:
    """SHA-256 over the hash before, in hexadecimal, and the JSON object of all that the link says, by sorted keys.

    What it does not say is left out: a field that is added one day changes no hash of before.
    """
    said = {name: value for name in _SAID if (value := getattr(link, name)) is not None}
    return sha256(previous.encode() + orjson.dumps(said)).hexdigest()


def take_up(heads: Heads, feed: str, after: int, changes: Iterable[Done]) -> Decision:
    """Link on what the chain does not have yet. The changes are all that the feed has of the tenant behind `after`,
    through which the chain is known to have taken it up."""
    head = heads(CHAIN, CHAIN_ID)
    taken = taken_up(head, feed)
    if taken < after:
        raise Unavailable(f"the chain stands at {taken} of the feed, not at {after}", retry_after_ms=BEHIND_MS)
    return _linked(head, (_done(change, feed) for change in changes if change.sequence > taken))


def refuse(heads: Heads, refusals: Sequence[Refusal], now: int) -> Decision:
    """Link on what no change tells of."""
    return _linked(heads(CHAIN, CHAIN_ID), (_refused(refusal, now) for refusal in refusals))


def taken_up(head: Head[ChainHead] | None, feed: str) -> int:
    """How far a feed is taken up; one that was made anew begins with nothing."""
    return head.value.sequence if head is not None and head.value is not None and head.value.feed == feed else 0


def _linked(head: Head[ChainHead] | None, links: Iterable[Link]) -> Decision:
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
