"""How far the index is with an item: what of a version is noted, and what of the index is of no use then.

A version is a fence: nothing is noted for one below the newest that was heard of. Of events, which never change and are
never deleted one by one, the session is the fence.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from hivemem_runtime.ledger.port import Append, Heads, value_of
from hivemem_vectors.pipeline.decisions.changes import Told
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
"""Until what is down is asked again, in microseconds."""
LONGEST_WAIT_OF_REFUSED: Final = 300_000_000

ERASURES: Final = 16
"""So many of one item are known by their versions: far more than can be told in another order than theirs."""


class Outcome(NamedTuple):
    """What became of one version. All its points are in the store, or there is a `failure`: why not, whether that was
    a refusal, and so nothing that passes by itself, and after how many microseconds it is worth another try at least.

    `mirror` is of that version, and noted where it `is_new`; `before` is what the ledger had in its place, which may
    have left points behind. `spread` is about 1, and another for each, so that not all are tried again at once.
    """

    place: str
    mirror: Mirror
    is_new: bool
    before: Mirror | None = None
    failure: "Failure | None" = None
    anew: bool = False
    """The index is told again, whatever the ledger says of it."""
    spread: float = 1.0

    @property
    def version(self) -> int:
        assert self.mirror.version is not None, "only what is gone has none"
        return self.mirror.version


class Failure(NamedTuple):
    reason: str
    refused: bool
    wait: int = 0


class Gone(NamedTuple):
    """A version that is a deletion. Its points, and those of all versions before it, are removed, unless there is a
    `failure`; `indexed` was in the index before that."""

    place: str
    version: int
    receipt: str | None = None
    indexed: int | None = None
    failure: Failure | None = None
    spread: float = 1.0


@dataclass(slots=True)
class Noted:
    """What to append, and the names of points that are of no use after that."""

    appends: list[Append[Any, Any]] = field(default_factory=list[Append[Any, Any]])
    useless: list[str] = field(default_factory=list[str])


def is_news(item: Item | None, told: Told) -> bool:
    """Whether there is anything to do for what was told."""
    if item is None or told.version > item.heard:
        return True
    if told.gone:
        is_to_count = told.receipt is not None and _is_uncounted(item, told.version)
        return is_to_count or (told.version == item.heard and not item.gone)
    if item.gone:
        return is_event(told.place)
    return told.version == item.heard and item.state != SYNCED


def is_unclean(item: Item | None) -> bool:
    """Whether points of what was deleted may still be in the store."""
    return item is not None and item.gone and item.retry_at is not None


def _is_uncounted(item: Item, erasure: int) -> bool:
    return erasure not in item.erased and (len(item.erased) < ERASURES or erasure > min(item.erased))


def note(heads: Heads, outcomes: Sequence[Outcome], now: int) -> Noted:
    noted = Noted()
    for outcome in outcomes:
        item = _value(heads, outcome.place)
        if is_event(outcome.place):
            if not _is_followed(heads, outcome):
                noted.useless += _names(outcome.place, outcome.mirror)
                continue
            if item is not None and item.gone:
                item = None
        if item is not None and not _is_open(item, outcome.version):
            if item.indexed != outcome.version:
                noted.useless += _names(outcome.place, outcome.mirror)
            continue
        if outcome.failure is not None:
            _postpone(noted, item, outcome, outcome.failure, now)
        else:
            _sync(noted, item, outcome)
    return noted


def _is_open(item: Item, version: int) -> bool:
    return version > item.heard or (version == item.heard and not item.gone)


def _sync(noted: Noted, item: Item | None, outcome: Outcome) -> None:
    place, version, chunks = outcome.place, outcome.version, len(outcome.mirror.texts)
    was_there = item is not None and item.state == SYNCED and item.indexed == version and not item.gone
    if not was_there or (item is not None and item.chunks != chunks):
        told, erased = (0, list[int]()) if item is None else (item.told, item.erased)
        synced = Item(version, False, SYNCED, version, chunks, told=told, erased=erased)
        if not was_there:
            synced = replace(synced, told=told + 1, announced="synced")
        noted.appends.append(Append(ITEM, place, synced))
    if outcome.is_new and (outcome.anew or not was_there):
        noted.appends.append(Append(MIRROR, place, outcome.mirror))
    noted.useless += _left_behind(item, outcome)


def _left_behind(item: Item | None, outcome: Outcome) -> list[str]:
    """What other versions, or a longer text of this one, have in the store."""
    place, version, before = outcome.place, outcome.version, outcome.before
    names: list[str] = []
    indexed = None if item is None else item.indexed
    if item is not None and indexed is not None:
        names += names_of(place, indexed, item.chunks)[len(outcome.mirror.texts) if indexed == version else 0 :]
    if before is not None and before.version not in (None, indexed, version):
        names += _names(place, before)
    return names


def _postpone(noted: Noted, item: Item | None, outcome: Outcome, failure: Failure, now: int) -> None:
    place, version = outcome.place, outcome.version
    is_same = item is not None and item.heard == version
    if item is not None and is_same and item.state == SYNCED:
        # Another worker had more luck, or what was to be done anew is as it was.
        return
    was_refused = item is not None and is_same and item.state == FAILED
    indexed = None if item is None else item.indexed
    attempts = 1 + (item.attempts if item is not None and is_same else 0)
    announces = failure.refused and not was_refused
    postponed = Item(
        version,
        False,
        FAILED if failure.refused else PENDING if indexed is None else STALE,
        indexed,
        0 if item is None else item.chunks,
        attempts,
        failure.reason,
        now + wait_after(attempts, failure, outcome.spread),
        (0 if item is None else item.told) + announces,
        "failed" if announces else None,
        erased=[] if item is None else item.erased,
    )
    noted.appends.append(Append(ITEM, place, postponed))
    if outcome.is_new:
        noted.appends.append(Append(MIRROR, place, outcome.mirror))


def wait_after(attempts: int, failure: Failure, spread: float) -> int:
    """In microseconds. What is down is asked often, for much may wait for it; what was refused, seldom."""
    longest = LONGEST_WAIT_OF_REFUSED if failure.refused else LONGEST_WAIT
    wait = max(FIRST_WAIT * 2 ** min(attempts - 1, 16), failure.wait)
    return int(min(wait, longest) * spread)


def remove(heads: Heads, gone: Sequence[Gone], now: int) -> Noted:
    """Each of another place."""
    noted = Noted()
    receipts: list[str] = []
    for one in gone:
        item = _value(heads, one.place)
        if one.receipt is not None and (item is None or _is_uncounted(item, one.version)):
            receipts.append(one.receipt)
        if item is not None and not _is_open(item, one.version):
            _clean(noted, item, one, now)
            continue
        told, erased = (0, list[int]()) if item is None else (item.told, item.erased)
        removed = Item(one.version, True, SYNCED, told=told + 1, announced="synced", erased=_erased(erased, one))
        noted.appends.append(Append(ITEM, one.place, _settled(removed, one, now)))
        if item is not None and not item.gone:
            noted.appends.append(Append(MIRROR, one.place, Mirror()))
            if item.indexed is not None and item.indexed != one.indexed:
                # It came into the index meanwhile.
                noted.useless += names_of(one.place, item.indexed, item.chunks)
    _count(noted, heads, receipts, now)
    return noted


def _clean(noted: Noted, item: Item, one: Gone, now: int) -> None:
    """As much, or more, was known already: an erasure may still be new, or points be gone only now."""
    known = replace(item, announced=None)
    if one.receipt is not None and _is_uncounted(item, one.version):
        known = replace(known, erased=_erased(item.erased, one))
    if is_unclean(item) and one.version == item.heard:
        known = _settled(known, one, now)
    if known != replace(item, announced=None):
        noted.appends.append(Append(ITEM, one.place, known))


def _erased(before: list[int], one: Gone) -> list[int]:
    return before if one.receipt is None else sorted([*before, one.version])[-ERASURES:]


def _settled(item: Item, one: Gone, now: int) -> Item:
    """With its points removed, or still to be."""
    if one.failure is None:
        return replace(item, attempts=0, error=None, retry_at=None)
    attempts = item.attempts + 1
    retry_at = now + wait_after(attempts, one.failure, one.spread)
    return replace(item, attempts=attempts, error=one.failure.reason, retry_at=retry_at)


def _count(noted: Noted, heads: Heads, receipts: Iterable[str], now: int) -> None:
    """Each erased item once: in the same step in which it becomes known that it is gone."""
    for receipt, count in Counter(receipts).items():
        head = heads(REMOVAL, receipt)
        before = 0 if head is None or head.value is None else head.value.removed
        noted.appends.append(Append(REMOVAL, receipt, Removal(before + count, now)))


def _is_followed(heads: Heads, outcome: Outcome) -> bool:
    head = heads(FOLLOWED, session_of(outcome.place))
    return is_followed(value_of(head), outcome.mirror.fields["updated_at"])


def is_followed(followed: Followed | None, at: int) -> bool:
    """Whether an event of that moment is one of a session whose events are indexed."""
    return followed is not None and followed.indexes and not followed.gone and at >= followed.since


def _value(heads: Heads, place: str) -> Item | None:
    head = heads(ITEM, place)
    return value_of(head)


def _names(place: str, mirror: Mirror) -> list[str]:
    return [] if mirror.version is None else names_of(place, mirror.version, len(mirror.texts))
