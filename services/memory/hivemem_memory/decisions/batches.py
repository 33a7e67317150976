"""One request of many parts as one decision: each part is done or refused on its own, and sees those before it.

What became of the parts is kept as the request's answer, together with what they wrote. The same request again does
the parts that are not done yet, and those alone: nothing is done twice, and what was refused may succeed later.
"""

from collections.abc import Callable, Sequence
from typing import Any

from hivemem_contracts.errors import HiveError
from hivemem_memory.entities.answers import ANSWER, Answer
from hivemem_memory.entities.memories import MEMORY, MemoryHead, MemoryRecord, evolve_memory
from hivemem_runtime.ledger.entity import AnyEntity, Stamp
from hivemem_runtime.ledger.identities import idempotency_conflict
from hivemem_runtime.ledger.port import Append, Decision, Head, Heads, RequestId


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


class Batch:
    """A request's parts on their way through a decision. `places` are those that the parts write to, in their order.

    A decision may run more than once; what stands here afterwards is of its last run, the one that counted.
    """

    __slots__ = ("_agent", "_digest", "_do_part", "_places", "before", "id", "results")

    def __init__(self, request_id: RequestId, agent: str, places: Sequence[str], do_part: DoPart) -> None:
        self.id = request_id.name
        """Of the answer that is kept."""
        self._agent = agent
        self._places = places
        self._do_part = do_part
        self._digest = None if request_id.digest is None else request_id.digest.hex()
        self.before: list[Done | None] = []
        """What an earlier request of the same id had done; None where it had not."""
        self.results: list[Done | HiveError] = []
        """What became of each part."""

    @property
    def reads(self) -> list[tuple[AnyEntity, str]]:
        """All heads that the decision asks for, so that they can be read together."""
        return [(MEMORY, place) for place in self._places]

    @property
    def refusal(self) -> HiveError | None:
        """The first one."""
        return next((result for result in self.results if isinstance(result, HiveError)), None)

    def decide(self, heads: Heads, now: int) -> Decision:
        self.before = self._known(heads)
        staged = Staged(heads, self._agent, now)
        self.results = [
            self._try_part(staged, number) if done is None else done for number, done in enumerate(self.before)
        ]
        news = any(
            known is None and not isinstance(result, HiveError)
            for known, result in zip(self.before, self.results, strict=True)
        )
        if not news:
            return []
        kept = [None if isinstance(result, HiveError) else result for result in self.results]
        answer = Answer({"digest": self._digest, "done": kept}, now)
        return [Append(ANSWER, self.id, answer), *staged.appends]

    def _known(self, heads: Heads) -> list[Done | None]:
        head = heads(ANSWER, self.id)
        if head is None or head.value is None:
            return [None] * len(self._places)
        reply = head.value.reply
        done: list[Done | None] = reply["done"]
        # An answer of an older release has no digest.
        if reply.get("digest") not in (None, self._digest) or len(done) != len(self._places):
            raise idempotency_conflict()
        return done

    def _try_part(self, staged: Staged, number: int) -> Done | HiveError:
        try:
            return self._do_part(staged, number)
        except HiveError as error:
            if error.retryable:
                raise
            return error
