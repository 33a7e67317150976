"""The audit chain. Each tenant has one, and each link holds the hash of the link before it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from hivemem_runtime.ledger.entity import Entity, Stamp, record_entity
from hivemem_runtime.ledger.places import place_of, scope_of

CHAIN_ID: Final = "chain"


@dataclass(slots=True)
class Link:
    """One entry of the audit: actor, operation, time and request. `at` is the time of the write, not of the link.

    `feed` and `sequence` name the message of the feed that the link comes from, if any, so that a redelivery is
    recognized.
    """

    position: int
    at: int
    actor: str
    operation: str
    outcome: str
    hash: str
    namespace: str | None = None
    key: str | None = None
    from_version: int | None = None
    to_version: int | None = None
    request_id: str | None = None
    error: str | None = None
    digest: str | None = None
    feed: str | None = None
    sequence: int | None = None
    task_id: str | None = None


@dataclass(slots=True)
class ChainHead:
    """The hash and position of the last link, and the last message of the feed that has a link. `newest` is the latest
    commit time of all changes with a link."""

    position: int
    hash: str
    feed: str | None = None
    sequence: int = 0
    newest: int = 0


def evolve_chain(head: ChainHead | None, link: Link, stamp: Stamp) -> ChainHead:
    if link.sequence is not None:
        newest = max(link.at, head.newest if head is not None else 0)
        return ChainHead(link.position, link.hash, link.feed, link.sequence, newest)
    if head is None:
        return ChainHead(link.position, link.hash)
    return ChainHead(link.position, link.hash, head.feed, head.sequence, head.newest)


@dataclass(frozen=True, slots=True)
class FeedPosition:
    """The chain's position on the feed if its last link does not have it: after the feed got another identity, or after
    messages without a link. Head and record have the same shape.

    A change committed at `doubt_until` or earlier may have a link from the previous feed.
    """

    feed: str
    sequence: int
    doubt_until: int


def _tags(link: Link) -> Mapping[str, str | None]:
    namespace, key = link.namespace, link.key
    return {
        "actor": link.actor,
        "operation": link.operation,
        "task": link.task_id,
        "scope": None if namespace is None else scope_of(namespace),
        "place": None if namespace is None or key is None else place_of(namespace, key),
    }


CHAIN: Final = Entity(
    name="audit",
    head=ChainHead,
    record=Link,
    evolve=evolve_chain,
    announce=lambda record, stamp: (),
    indexed=lambda head: {},
    position=lambda link: link.position,
    tag_fields=("actor", "operation", "task", "scope", "place"),
    tags=_tags,
    snapshot_every=1_000,
)

FEED_POSITION: Final = record_entity("taken_up", FeedPosition, history=False)
