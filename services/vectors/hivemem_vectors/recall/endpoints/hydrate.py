"""From what was found to what is answered: each item as it is now, if it still is what was asked for."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from hivemem_contracts.errors import Internal, Overloaded, Unavailable
from hivemem_contracts.identifiers import format_microseconds
from hivemem_runtime.ledger.port import Ledger
from hivemem_runtime.service import Call
from hivemem_vectors.pipeline.decisions.changes import told_of_memory
from hivemem_vectors.pipeline.endpoints.memory_service import Memories, Name
from hivemem_vectors.pipeline.entities import ITEM, MIRROR, Mirror, is_event, named
from hivemem_vectors.recall.decisions.budget import Budget
from hivemem_vectors.recall.decisions.filters import Wanted
from hivemem_vectors.recall.decisions.ranking import Piece, Ranked

SPARE_ITEMS: Final = (3, 30, 300)
"""So many more are read than are wanted, each time: they may have gone or changed since they were indexed. More often
they are not read."""

LONGEST_SECONDS: Final = 3.0
DIGITS: Final = 6
_NEVER: Final = 2**63


class Sources(NamedTuple):
    """What is known of some items: memories as they are, the mirror of all others. Those `left` were not read."""

    memories: Mapping[Name, Mapping[str, Any]]
    left: frozenset[Name]
    mirrors: Mapping[str, Mirror]

    def has_now(self, piece: Piece) -> bool:
        """Whether the piece is known to be of its item as it is now. The mirror has nothing else."""
        memory = None if is_event(piece.place) else self.memories.get(named(piece.place))
        return piece.is_mirrored or (memory is not None and memory["version"] == piece.version)


class Hydrating:
    """Asks the memory service in the name of whoever asks."""

    def __init__(self, ledger: Ledger, memories: Memories) -> None:
        self._ledger = ledger
        self._memories = memories

    async def fill(self, budget: Budget, call: Call, ranked: Sequence[Ranked], wanted: Wanted) -> str | None:
        """Put the best into the budget. Where the memory service does not answer, they are as they were indexed, and
        the answer is why."""
        failure: str | None = None
        done = 0
        for spare in SPARE_ITEMS:
            some = ranked[done : done + budget.missing + spare] if budget.missing else ()
            if not some:
                break
            sources = failure or await self._as_they_are(call, some)
            if isinstance(sources, str):
                failure, sources = sources, await self._as_indexed(call, some)
            indexed = await self._indexed(call, [item for item in some if not sources.has_now(item.piece)])
            done += _taken(budget, some, sources, indexed, wanted)
        return failure

    async def _indexed(self, call: Call, some: Sequence[Ranked]) -> dict[str, int]:
        """Which version of each is noted as the one that the index has."""
        if not some:
            return {}
        heads = await self._ledger.heads(ITEM, call.sender.tenant, [item.piece.place for item in some])
        return {
            place: head.value.indexed
            for place, head in heads.items()
            if head.value is not None and head.value.indexed is not None
        }

    async def _as_they_are(self, call: Call, some: Sequence[Ranked]) -> Sources | str:
        """Or why they cannot be had."""
        places = [item.piece.place for item in some]
        names = [named(place) for place in places if not is_event(place)]
        events = [place for place in places if is_event(place)]
        mirrors = await self._mirrors(call, events) if events else {}
        if not names:
            return Sources({}, frozenset(), mirrors)
        try:
            async with asyncio.timeout(LONGEST_SECONDS):
                memories, left = await self._memories.get_some(call.sender.tenant, call.sender.agent, names)
        except (Unavailable, Overloaded, Internal) as error:
            return error.detail
        except TimeoutError:
            return "the memory service takes too long"
        return Sources(memories, frozenset(left), mirrors)

    async def _as_indexed(self, call: Call, some: Sequence[Ranked]) -> Sources:
        return Sources({}, frozenset(), await self._mirrors(call, [item.piece.place for item in some]))

    async def _mirrors(self, call: Call, places: Sequence[str]) -> dict[str, Mirror]:
        heads = await self._ledger.heads(MIRROR, call.sender.tenant, places)
        return {place: head.value for place, head in heads.items() if head.value is not None}


def _taken(budget: Budget, some: Sequence[Ranked], sources: Sources, indexed: Mapping[str, int], wanted: Wanted) -> int:
    """How many were looked at before the budget was full, or one was not read."""
    for number, item in enumerate(some):
        place = item.piece.place
        if not sources.has_now(item.piece) and item.piece.version < indexed.get(place, _NEVER):
            # What is left of a former version, or of what is gone.
            continue
        # An event may have the name of a memory.
        name = None if is_event(place) else named(place)
        if not budget.missing or name in sources.left:
            return number
        memory = None if name is None else sources.memories.get(name)
        if memory is not None:
            answered = _as_it_is(item, memory, wanted)
        else:
            answered = _as_it_was_indexed(item, sources.mirrors.get(place), wanted)
        if answered is not None:
            budget.add(answered)
    return len(some)


def _as_it_is(item: Ranked, memory: Mapping[str, Any], wanted: Wanted) -> dict[str, Any] | None:
    """None where that is not what was asked for any more."""
    told, piece = told_of_memory("", memory), item.piece
    if not wanted.holds(told.fields):
        return None
    text = told.text if told.version == piece.version else None
    return {
        "kind": "memory",
        "namespace": memory["namespace"],
        "key": memory["key"],
        "version": told.version,
        "value": memory["value"],
        "memory_type": memory["memory_type"],
        "metadata": memory["metadata"],
        "updated_at": memory["updated_at"],
        "text": None if text is None else text[piece.start : piece.start + piece.length],
        **_scores(item),
    }


def _as_it_was_indexed(item: Ranked, mirror: Mirror | None, wanted: Wanted) -> dict[str, Any] | None:
    """None where it is gone by now."""
    piece = item.piece
    if mirror is None or mirror.version is None or not wanted.holds(mirror.fields):
        return None
    namespace, key = named(piece.place)
    return {
        "kind": "event" if is_event(piece.place) else "memory",
        "namespace": namespace,
        "key": key,
        "version": mirror.version,
        "value": mirror.value,
        "memory_type": mirror.fields.get("memory_type"),
        "metadata": mirror.fields.get("metadata", {}),
        "updated_at": format_microseconds(mirror.fields["updated_at"]),
        "text": mirror.texts[piece.chunk] if mirror.version == piece.version else None,
        **_scores(item),
    }


def _scores(item: Ranked) -> dict[str, Any]:
    scores = {name: round(score, DIGITS) for name, score in item.scores._asdict().items()}
    return {"score": round(item.score, DIGITS), "scores": scores}
