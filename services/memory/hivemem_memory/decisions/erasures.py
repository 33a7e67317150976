"""The rules of an erasure: its start, its progress, its end and the confirmations of other workers."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

from hivemem_contracts.errors import InvalidRequest, NotFound, RevisionConflict, TooLarge
from hivemem_contracts.memory.requests import ConfirmErasure
from hivemem_memory.decisions.preconditions import memory_not_found
from hivemem_memory.entities.erasures import DONE, ERASURE, REMOVED, RUNNING, Erasure, awaited_of
from hivemem_memory.entities.fences import FENCE, Fence
from hivemem_memory.entities.memories import MEMORY
from hivemem_runtime.ledger.identities import idempotency_conflict
from hivemem_runtime.ledger.places import below, place_of
from hivemem_runtime.ledger.port import Append, Decision, Head, Heads

OWN_NAME: Final = "memory"
"""The name under which this worker confirms."""
FEED_NAME: Final = "feed"
"""The name under which this worker confirms that the feed has no values of the erased memories any more."""
CONFIRMATIONS: Final = 100
_BEHIND: Final = "\x00"
"""A character that no place contains. Appended to a place, it begins the range after that place."""


@dataclass(frozen=True, slots=True)
class ErasureOrder:
    """The namespaces or key to erase, the actor, and the request that caused it."""

    namespaces: tuple[str, ...]
    key: str | None
    actor: str
    cause: str
    at: int | None = None
    """The time of the session's end, or when the order was published; None for an order given now."""


def begin_erasure(heads: Heads, receipt: str, order: ErasureOrder, now: int) -> Decision:
    """Begin an erasure, or do nothing if the same erasure has begun before."""
    first, *more = order.namespaces
    begun = heads(ERASURE, receipt)
    if begun is not None and begun.value is not None:
        if (begun.value.namespace, begun.value.key, begun.value.more) != (first, order.key, more):
            raise idempotency_conflict()
        return []
    if order.key is not None:
        memory = heads(MEMORY, place_of(first, order.key))
        if memory is None or memory.value is None:
            raise memory_not_found(first, order.key)
    erasure = Erasure(first, order.key, order.actor, now, order.cause, more=more)
    return [*_append(receipt, erasure), *_fences(heads, order, now if order.at is None else order.at)]


def _fences(heads: Heads, order: ErasureOrder, at: int) -> list[Append[Fence, Fence]]:
    """Return fences against writes that were published before the erasure and are not committed yet."""
    appends: list[Append[Fence, Fence]] = []
    for namespace in order.namespaces:
        place = place_of(namespace, order.key)
        head = heads(FENCE, place)
        if head is None or head.value is None or head.value.at < at:
            appends.append(Append(FENCE, place, Fence(at)))
    return appends


def count_erased(
    heads: Heads, receipt: str, reached: str | None, further: str, entries: int, versions: int
) -> Decision:
    """Count a slice before it is erased, so that it is counted once even if another worker finishes it."""
    erasure = _running(heads, receipt, reached)
    counted = replace(erasure, entries=erasure.entries + entries, versions=erasure.versions + versions, reached=further)
    return _append(receipt, counted)


def finish_removal(heads: Heads, receipt: str, reached: str | None, followers: Collection[str], now: int) -> Decision:
    """End the removal of the memories. The erasure is done once every follower has confirmed, too."""
    erasure = _running(heads, receipt, reached)
    confirmed = _confirmed(erasure, OWN_NAME, erasure.versions, now)
    removed = replace(
        erasure, status=REMOVED, reached=None, confirmed=confirmed, awaited=sorted({*followers, FEED_NAME})
    )
    return _append(receipt, _settled(removed, now) or _told(removed, REMOVED))


def drop_followers(heads: Heads, receipt: str, followers: Collection[str], now: int) -> Decision:
    """Await only workers that still follow erasures."""
    erasure = find_erasure(heads(ERASURE, receipt), receipt)
    if erasure.status != REMOVED:
        return []
    awaited = [worker for worker in erasure.awaited if worker in followers or worker == FEED_NAME]
    if awaited == erasure.awaited:
        return []
    left = replace(erasure, awaited=awaited, announced=None)
    return _append(receipt, _settled(left, now) or left)


def confirm_erasure(heads: Heads, command: ConfirmErasure, now: int) -> Decision:
    """Record the confirmation of a worker. A repeated confirmation replaces the earlier one."""
    if command.worker in (OWN_NAME, FEED_NAME):
        raise InvalidRequest(f"worker: {command.worker!r} is confirmed by the memory service itself", field="worker")
    erasure = find_erasure(heads(ERASURE, command.receipt), command.receipt)
    confirmed = _confirmed(erasure, command.worker, command.removed, now)
    if len(confirmed) > CONFIRMATIONS:
        raise TooLarge(
            f"worker: {CONFIRMATIONS} workers have confirmed erasure {command.receipt!r}",
            field="worker",
            limit=CONFIRMATIONS,
            actual=len(confirmed),
        )
    counted = replace(erasure, confirmed=confirmed, announced=None)
    return _append(command.receipt, _settled(counted, now) or counted)


def confirm_purge(heads: Heads, receipt: str, removed: int, now: int) -> Decision:
    """Record that the feed was purged, unless another worker has done so."""
    erasure = find_erasure(heads(ERASURE, receipt), receipt)
    if awaited_of(erasure) != [FEED_NAME]:
        return []
    purged = replace(erasure, confirmed=_confirmed(erasure, FEED_NAME, removed, now), announced=None)
    return _append(receipt, _settled(purged, now) or purged)


def find_erasure(head: Head[Erasure] | None, receipt: str) -> Erasure:
    if head is None or head.value is None:
        raise NotFound(f"erasure {receipt!r} does not exist", receipt=receipt)
    return head.value


def ranges_of(erasure: Erasure) -> list[tuple[str, str]]:
    """Return the ranges of places that an erasure covers, in order, each without its end."""
    if erasure.key is not None:
        place = place_of(erasure.namespace, erasure.key)
        return [(place, behind(place))]
    return sorted(map(below, (erasure.namespace, *erasure.more)))


def behind(place: str) -> str:
    return place + _BEHIND


def _running(heads: Heads, receipt: str, reached: str | None) -> Erasure:
    """Return the erasure if it is unchanged since this worker read it. Raises `RevisionConflict` if another worker
    advanced it."""
    erasure = find_erasure(heads(ERASURE, receipt), receipt)
    if erasure.status != RUNNING or erasure.reached != reached:
        raise RevisionConflict(f"another worker carries out erasure {receipt!r}")
    return erasure


def _settled(erasure: Erasure, now: int) -> Erasure | None:
    """Return the erasure as it is done, or None while it is not. Whoever has confirmed is awaited no more."""
    if erasure.status != REMOVED:
        return None
    if awaited_of(erasure):
        return None
    return _told(replace(erasure, status=DONE, finished_at=now, awaited=[]), DONE)


def _told(erasure: Erasure, operation: str) -> Erasure:
    return replace(erasure, told=erasure.told + 1, announced=operation)


def _confirmed(erasure: Erasure, worker: str, removed: int, now: int) -> list[dict[str, object]]:
    others = [confirmation for confirmation in erasure.confirmed if confirmation["worker"] != worker]
    return [*others, {"worker": worker, "removed": removed, "at": now}]


def _append(receipt: str, erasure: Erasure) -> Sequence[Append[Erasure, Erasure]]:
    return [Append(ERASURE, receipt, erasure)]
