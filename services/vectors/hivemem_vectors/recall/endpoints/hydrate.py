"""The last step of a recall: the items that were found as they are now, if they still match."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final, NamedTuple

from hivemem_contracts.errors import Internal, NotFound, Overloaded, Unavailable
from hivemem_contracts.identifiers import format_microseconds
from hivemem_runtime.ledger.current import current_values
from hivemem_runtime.ledger.port import Ledger
from hivemem_runtime.service import Call
from hivemem_vectors.pipeline.decisions.changes import version_of_memory
from hivemem_vectors.pipeline.endpoints.peers import MemoryService, Name, SessionService
from hivemem_vectors.pipeline.entities import ITEM, MIRROR, Mirror, is_event, named, session_of
from hivemem_vectors.recall.decisions.budget import Budget
from hivemem_vectors.recall.decisions.filters import Question
from hivemem_vectors.recall.decisions.ranking import DIGITS, Piece, Ranked, matched_words
from hivemem_vectors.recall.decisions.reranking import Candidates
from hivemem_vectors.recall.decisions.turns import Run, around, runs, turn_of
from hivemem_vectors.recall.endpoints.search import Shortfall

SPARE_ITEMS: Final = (3, 30, 300)
"""How many more items than wanted are read in each round, because some may have gone or changed since."""

LONGEST_SECONDS: Final = 3.0
RUNS_AT_ONCE: Final = 16
_NEVER: Final = 2**63
_SHOWN: Final = ("namespace", "key", "version", "value", "memory_type", "metadata", "created_at", "updated_at")
_OF_A_MEMORY: Final = {"session_id": None, "author": None, "occurred_at": None, "context": None}


class Sources(NamedTuple):
    """The current memories, and the mirrors of all other items. Memories in `left` were not read."""

    memories: Mapping[Name, Mapping[str, Any]]
    left: frozenset[Name]
    mirrors: Mapping[str, Mirror]

    def has_now(self, piece: Piece) -> bool:
        """Return whether the piece belongs to the current version of its item. The mirror has no other."""
        memory = None if is_event(piece.place) else self.memories.get(named(piece.place))
        return piece.is_mirrored or (memory is not None and memory["version"] == piece.version)


Contexts = Mapping[str, dict[str, list[dict[str, Any]]]]
"""The neighbours of events by their places."""
_NO_CONTEXTS: Final[Contexts] = {}


class Filled(NamedTuple):
    """How many of the ranked items are done with, answered or not, and what the answer lacks."""

    done: int
    shortfalls: list[Shortfall]


class Hydration:
    """Reads items from the memory service, and neighbours of events from the session service, in the name of the
    caller."""

    def __init__(self, ledger: Ledger, memories: MemoryService, sessions: SessionService) -> None:
        self._ledger = ledger
        self._memories = memories
        self._sessions = sessions

    async def fill(
        self,
        budget: Budget | Candidates,
        call: Call,
        ranked: Sequence[Ranked],
        question: Question,
        context: int,
    ) -> Filled:
        """Put the best items into the budget, events with `context` neighbours on each side. If the memory service does
        not answer, items are as they were indexed; if the session service does not, events have no context."""
        failure: str | None = None
        no_context: str | None = None
        done = 0
        for spare in SPARE_ITEMS:
            some = ranked[done : done + budget.missing + spare] if budget.missing else ()
            if not some:
                break
            reading = asyncio.create_task(self._contexts(call, some, context if no_context is None else 0))
            try:
                sources = failure or await self._as_they_are(call, some)
                if isinstance(sources, str):
                    mirrors = await self._mirrors(call, [item.piece.place for item in some])
                    failure, sources = sources, Sources({}, frozenset(), mirrors)
                indexed = await self._indexed(call, [item for item in some if not sources.has_now(item.piece)])
                contexts = await reading
            finally:
                reading.cancel()
            if isinstance(contexts, str):
                no_context, contexts = contexts, _NO_CONTEXTS
            done += _taken(budget, some, sources, indexed, question, contexts)
        shortfalls: list[Shortfall] = []
        if failure is not None:
            shortfalls.append(Shortfall("memory", f"items are as they were indexed: {failure}"))
        if no_context is not None:
            shortfalls.append(Shortfall("sessions", f"events come without their context: {no_context}"))
        return Filled(done, shortfalls)

    async def _contexts(self, call: Call, some: Sequence[Ranked], context: int) -> Contexts | str:
        """Return the neighbours of each event, or the reason why they cannot be read."""
        pieces = [item.piece for item in some if is_event(item.piece.place)]
        events = {piece.place: (session_of(piece.place), piece.version) for piece in pieces}
        if not context or not events:
            return _NO_CONTEXTS
        slots = asyncio.Semaphore(RUNS_AT_ONCE)
        turns: dict[str, dict[int, dict[str, Any]]] = {session_id: {} for session_id, _ in events.values()}

        async def read(run: Run) -> str | None:
            try:
                async with slots:
                    turns[run.session_id].update(await self._turns(call, run))
            except (Unavailable, Overloaded, Internal) as error:
                return error.detail
            return None

        try:
            async with asyncio.timeout(LONGEST_SECONDS):
                failures = await asyncio.gather(*[read(run) for run in runs(events.values(), context)])
        except TimeoutError:
            return "the session service takes too long"
        if (failure := next(filter(None, failures), None)) is not None:
            return failure
        return {place: around(turns[session_id], sequence, context) for place, (session_id, sequence) in events.items()}

    async def _turns(self, call: Call, run: Run) -> dict[int, dict[str, Any]]:
        """Return the events of a run by their sequences; none if the session is gone by now."""
        tenant, agent, most = call.sender.tenant, call.sender.agent, run.last - run.first + 1
        turns: dict[int, dict[str, Any]] = {}
        reading = self._sessions.events(tenant, run.session_id, run.first - 1, most, agent=agent)
        try:
            async with aclosing(reading) as pages:
                async for events in pages:
                    turns.update({event["sequence"]: turn_of(event) for event in events})
        except NotFound:
            return {}
        return turns

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
    contexts: Contexts,
) -> int:
    """Return the number of items before the budget was full, or an item came that was not read or did not fit."""
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
            if place in contexts:
                answered["context"] = contexts[place]
            if not budget.add(answered):
                return number
    return len(some)


def _as_it_is(item: Ranked, memory: Mapping[str, Any], question: Question) -> dict[str, Any] | None:
    """Return the item as it is now; None if it does not match any more."""
    told, piece = version_of_memory("", memory), item.piece
    if not told.text or not question.holds(told.place, told.fields):
        return None
    text = told.text if told.version == piece.version else None
    return {
        "kind": "memory",
        **{name: memory[name] for name in _SHOWN},
        "text": None if text is None else text[piece.start : piece.start + piece.length],
        **_OF_A_MEMORY,
        **_scores(item),
    }


def _as_it_was_indexed(item: Ranked, mirror: Mirror | None, question: Question) -> dict[str, Any] | None:
    """Return the item as it was indexed; None if it is gone by now."""
    piece = item.piece
    if mirror is None or mirror.version is None or not question.holds(piece.place, mirror.fields):
        return None
    namespace, key = named(piece.place)
    created_at = mirror.fields.get("committed_at")
    return {
        "kind": "event" if is_event(piece.place) else "memory",
        "namespace": namespace,
        "key": key,
        "version": mirror.version,
        "value": mirror.value,
        "memory_type": mirror.fields.get("memory_type"),
        "metadata": mirror.fields.get("metadata", {}),
        "created_at": None if created_at is None else format_microseconds(created_at),
        "updated_at": format_microseconds(mirror.fields["updated_at"]),
        "text": mirror.texts[piece.chunk] if mirror.version == piece.version else None,
        **(_of_an_event(piece.place, mirror) if is_event(piece.place) else _OF_A_MEMORY),
        **_scores(item),
    }


def _of_an_event(place: str, mirror: Mirror) -> dict[str, Any]:
    return {
        "session_id": session_of(place),
        "author": mirror.fields.get("created_by"),
        "occurred_at": format_microseconds(mirror.fields["updated_at"]),
        "context": None,
    }


def _scores(item: Ranked) -> dict[str, Any]:
    scores = {name: round(score, DIGITS) for name, score in item.scores._asdict().items()}
    return {"score": round(item.score, DIGITS), "scores": {**scores, "rerank": None}, "matched": None}
