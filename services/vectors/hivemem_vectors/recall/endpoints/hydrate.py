"""The last step of a recall: the items that were found as they are now, if they still match."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from hivemem_contracts.errors import Internal, Overloaded, Unavailable
from hivemem_contracts.identifiers import format_microseconds
from hivemem_runtime.ledger.current import current_values
from hivemem_runtime.ledger.port import Ledger
from hivemem_runtime.service import Call
from hivemem_vectors.pipeline.decisions.changes import version_of_memory
from hivemem_vectors.pipeline.endpoints.peers import MemoryService, Name
from hivemem_vectors.pipeline.entities import ITEM, MIRROR, Mirror, is_event, named
from hivemem_vectors.recall.decisions.budget import Budget
from hivemem_vectors.recall.decisions.filters import Question
from hivemem_vectors.recall.decisions.ranking import DIGITS, Piece, Ranked, matched_words
from hivemem_vectors.recall.decisions.reranking import Candidates

SPARE_ITEMS: Final = (3, 30, 300)
"""How many more items than wanted are read in each round, because some may have gone or changed since."""

LONGEST_SECONDS: Final = 3.0
_NEVER: Final = 2**63
_SHOWN: Final = ("namespace", "key", "version", "value", "memory_type", "metadata", "updated_at")


class Sources(NamedTuple):
    """The current memories, and the mirrors of all other items. Memories in `left` were not read."""

    memories: Mapping[Name, Mapping[str, Any]]
    left: frozenset[Name]
    mirrors: Mapping[str, Mirror]

    def has_now(self, piece: Piece) -> bool:
        """Return whether the piece belongs to the current version of its item. The mirror has no other."""
        memory = None if is_event(piece.place) else self.memories.get(named(piece.place))
        return piece.is_mirrored or (memory is not None and memory["version"] == piece.version)


class Hydration:
    """Reads items from the memory service in the name of the caller."""

    def __init__(self, ledger: Ledger, memories: MemoryService) -> None:
        self._ledger = ledger
        self._memories = memories

    async def fill(
        self, budget: Budget | Candidates, call: Call, ranked: Sequence[Ranked], question: Question
    ) -> str | None:
        """Put the best items into the budget. If the memory service does not answer, they are as they were indexed, and
        the reason is returned."""
        failure: str | None = None
        done = 0
        for spare in SPARE_ITEMS:
            some = ranked[done : done + budget.missing + spare] if budget.missing else ()
            if not some:
                break
            sources = failure or await self._as_they_are(call, some)
            if isinstance(sources, str):
                mirrors = await self._mirrors(call, [item.piece.place for item in some])
                failure, sources = sources, Sources({}, frozenset(), mirrors)
            indexed = await self._indexed(call, [item for item in some if not sources.has_now(item.piece)])
            done += _taken(budget, some, sources, indexed, question)
        return failure

    async def _indexed(self, call: Call, some: Sequence[Ranked]) -> dict[str, int]:
        """Return the indexed version of each item by the ledger."""
        items = await current_values(self._ledger, ITEM, call.sender.tenant, [item.piece.place for item in some])
        return {place: item.indexed for place, item in items.items() if item.indexed is not None}

    async def _as_they_are(self, call: Call, some: Sequence[Ranked]) -> Sources | str:
        """Return the current items, or the reason why they cannot be read."""
        places = [item.piece.place for item in some]
        names = [named(place) for place in places if not is_event(place)]
        events = [place for place in places if is_event(place)]
        mirrors = await self._mirrors(call, events)
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

    async def _mirrors(self, call: Call, places: Sequence[str]) -> dict[str, Mirror]:
        return await current_values(self._ledger, MIRROR, call.sender.tenant, places)


def _taken(
    budget: Budget | Candidates,
    some: Sequence[Ranked],
    sources: Sources,
    indexed: Mapping[str, int],
    question: Question,
) -> int:
    """Return the number of items before the budget was full, or an unread one came."""
    for number, item in enumerate(some):
        place = item.piece.place
        if not sources.has_now(item.piece) and item.piece.version < indexed.get(place, _NEVER):
            # The point is left over from an older version, or from a deleted item.
            continue
        # An event may have the name of a memory.
        name = None if is_event(place) else named(place)
        if not budget.missing or name in sources.left:
            return number
        memory = None if name is None else sources.memories.get(name)
        if memory is not None:
            answered = _as_it_is(item, memory, question)
        else:
            answered = _as_it_was_indexed(item, sources.mirrors.get(place), question)
        if answered is not None and question.worths is not None:
            answered["matched"] = matched_words(question, item.scores.keyword, answered["text"] or "")
        if answered is not None:
            budget.add(answered)
    return len(some)


def _as_it_is(item: Ranked, memory: Mapping[str, Any], question: Question) -> dict[str, Any] | None:
    """Return the item as it is now; None if it does not match any more."""
    told, piece = version_of_memory("", memory), item.piece
    if not question.holds(told.fields):
        return None
    text = told.text if told.version == piece.version else None
    return {
        "kind": "memory",
        **{name: memory[name] for name in _SHOWN},
        "text": None if text is None else text[piece.start : piece.start + piece.length],
        **_scores(item),
    }


def _as_it_was_indexed(item: Ranked, mirror: Mirror | None, question: Question) -> dict[str, Any] | None:
    """Return the item as it was indexed; None if it is gone by now."""
    piece = item.piece
    if mirror is None or mirror.version is None or not question.holds(mirror.fields):
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
    return {"score": round(item.score, DIGITS), "scores": {**scores, "rerank": None}, "matched": None}
