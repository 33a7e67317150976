"""One request of many parts as one decision: each part is done or refused on its own, and sees those before it.

What became of the parts is kept as the request's answer, together with what they wrote. The same request again does
the parts that are not done yet, and those alone: nothing is done twice, and what was refused may succeed later.
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


class Staged:
    """The memories as the next part finds them, and what is appended so far."""

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
        """On top of the head that was found; answers the version that it becomes."""
        self._staged[place] = (head, record)
        self.appends.append(Append(MEMORY, place, record))
        return 1 if head is None else head.version + 1


Done = list[Any]
"""What is kept of a part that was done, as plain JSON."""

DoPart = Callable[[Staged, int], Done]
"""Does the part of a number: appends what it writes and answers what is kept of it, or raises what refuses it."""


class Parts(NamedTuple):
    """What became of each part of a request, and which of them an earlier copy of the request had done already."""

    results: list[Done | HiveError]
    repeated: list[bool]

    @property
    def refusal(self) -> HiveError | None:
        """The first refusal, if any part was refused."""
        return next((result for result in self.results if isinstance(result, HiveError)), None)


@dataclass(frozen=True, slots=True)
class Batch:
    """A request's parts as one decision, which answers with `Parts`. `places` are those that the parts write to, in
    their order; `reads` are further keys that the decision asks for."""

    request_id: RequestId
    agent: str
    places: Sequence[str]
    do_part: DoPart
    more_reads: Reads = ()

    @property
    def reads(self) -> Reads:
        """All heads that the decision asks for, so that they can be read together."""
        return [*((MEMORY, place) for place in self.places), *self.more_reads]

    def decide(self, heads: Heads, now: int) -> Decided:
        known = self._known(heads)
        staged = Staged(heads, self.agent, now)
        results = [self._try_part(staged, number) if done is None else done for number, done in enumerate(known)]
        parts = Parts(results, [done is not None for done in known])
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

    def _known(self, heads: Heads) -> list[Done | None]:
        """What an earlier copy of the request has done of each part; None where it has not."""
        answer = value_of(heads(ANSWER, self.request_id.name))
        if answer is None:
            return [None] * len(self.places)
        done: list[Done | None] = answer.reply["done"]
        # An answer of an older release has no digest.
        if answer.reply.get("digest") not in (None, self._digest) or len(done) != len(self.places):
            raise idempotency_conflict()
        return done

    def _try_part(self, staged: Staged, number: int) -> Done | HiveError:
        try:
            return self.do_part(staged, number)
        except HiveError as error:
            if error.retryable:
                raise
            return error
