"""A request of many parts as one decision. Each part succeeds or is refused on its own, and sees the writes of earlier
parts.

The results of successful parts are stored as the request's answer, in the same commit. A retry carries out only the
parts without a result, so nothing is done twice and a refused part may succeed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from hivemem_contracts.errors import HiveError
from hivemem_memory.entities.answers import ANSWER, Answer
from hivemem_memory.entities.memories import MEMORY, MemoryHead, MemoryRecord, evolve_memory
from hivemem_runtime.ledger.entity import Stamp
from hivemem_runtime.ledger.identities import idempotency_conflict
from hivemem_runtime.ledger.port import Append, Decided, Head, Heads, Reads, RequestId, value_of


class StagedMemories:
    """The memories as the next part sees them, and the records to append so far."""

    __slots__ = ("_agent", "_staged", "appends", "heads", "now")

    def __init__(self, heads: Heads, agent: str, now: int) -> None:
        self.heads = heads
        self.now = now
        self._agent = agent
        self._staged: dict[str, tuple[Head[MemoryHead] | None, MemoryRecord]] = {}
        self.appends: list[Append[Any, Any]] = []

    def head(self, place: str) -> Head[MemoryHead] | None:
        if place not in self._staged:
            return self.heads(MEMORY, place)
        before, record = self._staged[place]
        version, at, value = (0, 0, None) if before is None else before[1:]
        at = max(self.now, at + 1)
        stamp = Stamp("", MEMORY.name, place, version + 1, at, self._agent)
        return Head(place, version + 1, at, evolve_memory(value, record, stamp))

    def append(self, place: str, head: Head[MemoryHead] | None, record: MemoryRecord) -> int:
        """Append a record to a memory, and return the memory's new version."""
        self._staged[place] = (head, record)
        self.appends.append(Append(MEMORY, place, record))
        return 1 if head is None else head.version + 1


PartResult = list[Any]
"""The stored result of a successful part, as plain JSON."""

DoPart = Callable[[StagedMemories, int], PartResult]
"""Carry out one part, by its number: append its records and return its result, or raise its refusal."""


class BatchResult(NamedTuple):
    """The result of each part, and whether an earlier attempt of the request produced it."""

    results: list[PartResult | HiveError]
    repeated: list[bool]

    @property
    def refusal(self) -> HiveError | None:
        """The first refusal, if any part was refused."""
        return next((result for result in self.results if isinstance(result, HiveError)), None)


@dataclass(frozen=True, slots=True)
class Batch:
    """The parts of a request as one decision, which answers with `BatchResult`. `places` holds the memory that each
    part writes; `more_reads` are further keys that the decision reads."""

    request_id: RequestId
    agent: str
    places: Sequence[str]
    do_part: DoPart
    more_reads: Reads = ()

    @property
    def reads(self) -> Reads:
        """The keys that the decision reads, for one read of all heads."""
        return [*((MEMORY, place) for place in self.places), *self.more_reads]

    def decide(self, heads: Heads, now: int) -> Decided:
        known = self._known(heads)
        staged = StagedMemories(heads, self.agent, now)
        results = [self._try_part(staged, number) if done is None else done for number, done in enumerate(known)]
        parts = BatchResult(results, [done is not None for done in known])
        if not any(
            before is None and not isinstance(result, HiveError) for before, result in zip(known, results, strict=True)
        ):
            return Decided((), parts)
        kept = [None if isinstance(result, HiveError) else result for result in results]
        answer = Answer({"digest": self._digest, "done": kept}, now)
        return Decided([Append(ANSWER, self.request_id.name, answer), *staged.appends], parts)

    @property
    def _digest(self) -> str | None:
        digest = self.request_id.digest
        return None if digest is None else digest.hex()

    def _known(self, heads: Heads) -> list[PartResult | None]:
        """Return the stored result of each part, or None for a part without one."""
        answer = value_of(heads(ANSWER, self.request_id.name))
        if answer is None:
            return [None] * len(self.places)
        done: list[PartResult | None] = answer.reply["done"]
        # The answer of an older release has no digest.
        if answer.reply.get("digest") not in (None, self._digest) or len(done) != len(self.places):
            raise idempotency_conflict()
        return done

    def _try_part(self, staged: StagedMemories, number: int) -> PartResult | HiveError:
        try:
            return self.do_part(staged, number)
        except HiveError as error:
            if error.retryable:
                raise
            return error
