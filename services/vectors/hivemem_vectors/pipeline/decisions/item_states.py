"""The states of items: what is noted of a version, and which points are useless after that.

A version is a fence: nothing is noted for a version below the newest known one. Events never change and are never
deleted one by one, so their session is the fence.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from hivemem_runtime.ledger.port import Append, Decided, Heads, value_of
from hivemem_vectors.pipeline.decisions.changes import ItemVersion
from hivemem_vectors.pipeline.decisions.drafts import Draft, Failure
from hivemem_vectors.pipeline.decisions.points import names_of
from hivemem_vectors.pipeline.entities import (
    FAILED,
    FOLLOWED,
    ITEM,
    MIRROR,
    PENDING,
    STALE,
    SYNCED,
    Followed,
    Item,
    Mirror,
    is_event,
    session_of,
)
from hivemem_vectors.upkeep.entities import REMOVAL, Removal

FIRST_WAIT: Final = 1_000_000
LONGEST_WAIT: Final = 10_000_000
"""The longest wait before a service that is down is called again, in microseconds."""
LONGEST_WAIT_OF_REFUSED: Final = 300_000_000

AnyAppend = Append[Any, Any]

UNKNOWN: Final = Item(heard=-1, gone=True, state=SYNCED)
"""What stands for an item that the ledger has never heard of."""

ERASURES: Final = 16
"""The most erasures that are remembered of one item; far fewer arrive out of order."""


class Noted(NamedTuple):
    """The names of points that are useless now, and the events that were not noted because their session has moved,
    with the scope that it has now."""

    useless: list[str]
    moved: dict[str, list[str]]


class Deletion(NamedTuple):
    """A deletion. Unless there is a `failure`, the points of its version and of all older ones are removed. `indexed`
    is the version that was in the index before."""

    place: str
    version: int
    receipt: str | None = None
    indexed: int | None = None
    failure: Failure | None = None


def is_news(item: Item | None, told: ItemVersion) -> bool:
    """Return whether a version still has to be indexed or deleted."""
    if item is None or told.version > item.heard:
        return True
    if told.gone:
        is_to_count = told.receipt is not None and _is_uncounted(item, told.version)
        return is_to_count or (told.version == item.heard and not item.gone)
    if item.gone:
        return is_event(told.place)
    return told.version == item.heard and item.state != SYNCED


def is_unclean(item: Item | None) -> bool:
    """Return whether the store may still have points of a deleted item."""
    return item is not None and item.gone and item.retry_at is not None


def _is_uncounted(item: Item, erasure: int) -> bool:
    return erasure not in item.erased and (len(item.erased) < ERASURES or erasure > min(item.erased))


def note_drafts(heads: Heads, drafts: Sequence[Draft], now: int, *, anew: bool) -> Decided:
    """Note how far each draft came. The answer is `Noted`.

    `anew` also replaces the mirror of a version that was in the index before."""
    appends, useless, moved = list[AnyAppend](), list[str](), dict[str, list[str]]()
    for draft in drafts:
        item = value_of(heads(ITEM, draft.place)) or UNKNOWN
        if is_event(draft.place):
            fields, followed = draft.mirror.fields, value_of(heads(FOLLOWED, session_of(draft.place)))
            if followed is None or not is_followed(followed, fields.get("committed_at", fields["updated_at"])):
                useless += _names(draft.place, draft.mirror)
                continue
            if followed.scope != fields.get("scope", []):
                moved[draft.place] = followed.scope
                continue
            if item.gone:
                item = UNKNOWN
        if not _is_open(item, draft.version):
            if item.indexed != draft.version:
                useless += _names(draft.place, draft.mirror)
        elif draft.failure is not None:
            appends += _postponed(item, draft, draft.failure, now)
        else:
            appends += _synced(item, draft, anew=anew)
            useless += _left_behind(item, draft)
    return Decided(appends, Noted(useless, moved))


def _is_open(item: Item, version: int) -> bool:
    return version > item.heard or (version == item.heard and not item.gone)


def _synced(item: Item, draft: Draft, *, anew: bool) -> Iterator[AnyAppend]:
    place, version, chunks = draft.place, draft.version, len(draft.texts)
    was_there = item.state == SYNCED and item.indexed == version and not item.gone
    if not was_there or item.chunks != chunks:
        synced = Item(version, False, SYNCED, version, chunks, told=item.told, erased=item.erased)
        if not was_there:
            synced = replace(synced, told=item.told + 1, announced="synced")
        yield Append(ITEM, place, synced)
    if draft.is_new and (anew or not was_there):
        yield Append(MIRROR, place, draft.mirror)


def _left_behind(item: Item, draft: Draft) -> list[str]:
    """Return the points of other versions, and surplus points of a longer text of this version."""
    place, version, before = draft.place, draft.version, draft.before
    names: list[str] = []
    if item.indexed is not None:
        names += names_of(place, item.indexed, item.chunks)[len(draft.texts) if item.indexed == version else 0 :]
    if before is not None and before.version not in (None, item.indexed, version):
        names += _names(place, before)
    return names


def _postponed(item: Item, draft: Draft, failure: Failure, now: int) -> Iterator[AnyAppend]:
    place, version = draft.place, draft.version
    is_same = item.heard == version
    if is_same and item.state == SYNCED:
        # Another worker has indexed it, or a repeated indexing failed and changed nothing.
        return
    attempts = 1 + (item.attempts if is_same else 0)
    announces = failure.refused and not (is_same and item.state == FAILED)
    postponed = Item(
        version,
        False,
        FAILED if failure.refused else PENDING if item.indexed is None else STALE,
        item.indexed,
        item.chunks,
        attempts,
        failure.reason,
        now + wait_after(attempts, failure),
        item.told + announces,
        "failed" if announces else None,
        erased=item.erased,
    )
    yield Append(ITEM, place, postponed)
    if draft.is_new:
        yield Append(MIRROR, place, draft.mirror)


def wait_after(attempts: int, failure: Failure) -> int:
    """Return the microseconds before the next try. A service that is down is retried soon, because much may wait for
    it; a refused item is not."""
    longest = LONGEST_WAIT_OF_REFUSED if failure.refused else LONGEST_WAIT
    wait = max(FIRST_WAIT * 2 ** min(attempts - 1, 16), failure.wait)
    return int(min(wait, longest) * failure.jitter)


def note_deletions(heads: Heads, deletions: Sequence[Deletion], now: int) -> Decided:
    """Note deletions, each of another place. The answer is the names of further points that are useless."""
    appends, useless, receipts = list[AnyAppend](), list[str](), list[str]()
    for one in deletions:
        item = value_of(heads(ITEM, one.place)) or UNKNOWN
        if one.receipt is not None and _is_uncounted(item, one.version):
            receipts.append(one.receipt)
        if not _is_open(item, one.version):
            appends += _cleaned(item, one, now)
            continue
        erased = _erased(item.erased, one)
        removed = Item(one.version, True, SYNCED, told=item.told + 1, announced="synced", erased=erased)
        appends.append(Append(ITEM, one.place, _with_points_removed(removed, one, now)))
        if not item.gone:
            appends.append(Append(MIRROR, one.place, Mirror()))
            if item.indexed is not None and item.indexed != one.indexed:
                # Another worker brought it into the index meanwhile.
                useless += names_of(one.place, item.indexed, item.chunks)
    # An erased item is counted once: in the commit that first knows that it is gone.
    for receipt, count in Counter(receipts).items():
        before = value_of(heads(REMOVAL, receipt))
        appends.append(Append(REMOVAL, receipt, Removal(count + (0 if before is None else before.removed), now)))
    return Decided(appends, useless)


def _cleaned(item: Item, one: Deletion, now: int) -> Iterator[AnyAppend]:
    """Of a deletion that was known already, an erasure may still be new, or its points be gone only now."""
    before = known = replace(item, announced=None)
    if one.receipt is not None and _is_uncounted(item, one.version):
        known = replace(known, erased=_erased(item.erased, one))
    if is_unclean(item) and one.version == item.heard:
        known = _with_points_removed(known, one, now)
    if known != before:
        yield Append(ITEM, one.place, known)


def _erased(before: list[int], one: Deletion) -> list[int]:
    return before if one.receipt is None else sorted([*before, one.version])[-ERASURES:]


def _with_points_removed(item: Item, one: Deletion, now: int) -> Item:
    """Return the item with its points removed, or with a retry of that."""
    if one.failure is None:
        return replace(item, attempts=0, error=None, retry_at=None)
    attempts = item.attempts + 1
    return replace(item, attempts=attempts, error=one.failure.reason, retry_at=now + wait_after(attempts, one.failure))


def is_followed(followed: Followed | None, at: int) -> bool:
    """Return whether an event of that moment belongs to a session whose events are indexed."""
    return followed is not None and followed.indexes and not followed.gone and at >= followed.since


def _names(place: str, mirror: Mirror) -> list[str]:
    return [] if mirror.version is None else names_of(place, mirror.version, len(mirror.texts))
