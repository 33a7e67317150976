"""Decisions about requests of many parts: what each part sees, what is stored of it, what a second try does."""

from typing import Any

import pytest

from hivemem_contracts.errors import IdempotencyConflict, RevisionConflict, Unavailable
from hivemem_contracts.memory.requests import PutMemories, PutMemory
from hivemem_memory.decisions.batches import Batch, BatchResult, PartResult, StagedMemories
from hivemem_memory.decisions.writes import put_memory
from hivemem_memory.entities.answers import ANSWER
from hivemem_memory.entities.memories import MEMORY
from hivemem_runtime.ledger.places import place_of
from hivemem_runtime.ledger.port import Decision, Heads, RequestId
from hivemem_runtime.service import body_digest

from .heads import NAMESPACE, DictHeads


def put(key: str, value: Any = None, **fields: Any) -> PutMemory:
    return PutMemory(namespace=NAMESPACE, key=key, value=value, **fields)


def batch_of(*puts: PutMemory, id: str = "r", agent: str = "bot") -> Batch:
    digest = body_digest(PutMemories(puts=list(puts)))
    places = [place_of(each.namespace, each.key) for each in puts]

    def do_part(staged: StagedMemories, number: int) -> PartResult:
        place = places[number]
        head = staged.head(place)
        record = put_memory(staged.heads, head, puts[number], agent, None, staged.now)
        return [staged.append(place, head, record), record.created_at is None]

    return Batch(RequestId(id, digest), agent, places, do_part)


def decided(batch: Batch, heads: DictHeads) -> tuple[Decision, BatchResult]:
    decision = batch.decide(heads, heads.now)
    return decision.appends, decision.answer


def done(heads: DictHeads, *puts: PutMemory, id: str = "r", agent: str = "bot") -> BatchResult:
    appends, parts = decided(batch_of(*puts, id=id, agent=agent), heads)
    heads.apply(appends, agent)
    return parts


def test_each_part_is_done_and_the_answer_comes_first() -> None:
    heads = DictHeads()
    appends, parts = decided(batch_of(put("a", 1), put("b", 2)), heads)
    assert [append.entity for append in appends] == [ANSWER, MEMORY, MEMORY]
    assert appends[0].id == "r"
    assert (parts.results, parts.repeated) == ([[1, True], [1, True]], [False, False])
    assert parts.refusal is None


def test_a_part_sees_those_before_it() -> None:
    heads = DictHeads()
    heads.put("k", 0, agent="ann")
    parts = done(
        heads,
        put("k", 1, metadata={"m": 1}, expect_version=1),
        put("k", 2, expect_version=2),
        put("n", 3, expect_version=0),
        put("n", 4, expect_version=0),
        put("n", 5, expect_version=1),
        put("n", 6),
        agent="bob",
    )
    conflict = parts.results[3]
    assert isinstance(conflict, RevisionConflict)
    assert conflict.context == {"expected": 0, "actual": 1}
    assert [result for result in parts.results if result is not conflict] == [
        [2, False],
        [3, False],
        [1, True],
        [2, False],
        [3, False],
    ]
    memory = heads.memory("k")
    assert (memory.value, memory.metadata, memory.version, memory.created_by) == (2, {"m": 1}, 3, "ann")
    memory = heads.memory("n")
    assert (memory.value, memory.version, memory.created_by) == (6, 3, "bob")
    assert memory.created_at == memory.updated_at


def test_the_same_request_again_does_nothing_and_answers_the_same() -> None:
    heads = DictHeads()
    puts = (put("a", 1), put("a", 2), put("b", 3))
    first = done(heads, *puts)
    heads.put("a", "meanwhile")
    appends, again = decided(batch_of(*puts), heads)
    assert appends == ()
    assert (again.results, again.repeated) == (first.results, [True, True, True])


def test_the_same_request_again_tries_what_was_refused_and_nothing_else() -> None:
    heads = DictHeads()
    puts = (put("a", 1), put("b", 2, expect_version=1), put("c", 3, expect_version=1))
    first = done(heads, *puts)
    assert isinstance(first.refusal, RevisionConflict)
    heads.put("b", "now it is there")
    second = done(heads, *puts)
    assert second.repeated == [True, False, False]
    assert second.results[:2] == [[1, True], [2, False]]
    assert isinstance(second.results[2], RevisionConflict)
    assert (heads.memory("a").version, heads.memory("b").value) == (1, 2)
    heads.put("c")
    third = done(heads, *puts)
    assert third.results == [[1, True], [2, False], [2, False]]
    assert (third.repeated, third.refusal) == ([True, True, False], None)


def test_a_request_of_which_nothing_can_be_done_is_not_kept() -> None:
    heads = DictHeads()
    appends, parts = decided(batch_of(put("a", 1, expect_version=5), put("b", 2, expect_version=6)), heads)
    assert appends == ()
    assert isinstance(parts.refusal, RevisionConflict)
    assert parts.refusal.context["expected"] == 5


def test_what_is_kept_names_no_memory() -> None:
    """An erasure would otherwise have to search here for its memories."""
    heads = DictHeads()
    done(heads, put("secret-key", "secret-value"), put("secret-key", 1, expect_version=9))
    head = heads(ANSWER, "r")
    assert head is not None
    assert "secret" not in repr(head.value)


def test_an_id_that_had_other_parts_is_refused() -> None:
    heads = DictHeads()
    done(heads, put("a", 1))
    for others in ([put("b", 1)], [put("a", 2)], [put("a", 1), put("a", 2)]):
        with pytest.raises(IdempotencyConflict) as refused:
            batch_of(*others).decide(heads, heads.now)
        assert refused.value.context == {"field": "Nats-Msg-Id"}
    assert done(heads, put("b", 1), id="another").results == [[1, True]]


def test_what_may_pass_refuses_the_whole() -> None:
    def fail(staged: StagedMemories, number: int) -> PartResult:
        raise Unavailable("later", retry_after_ms=1)

    with pytest.raises(Unavailable):
        Batch(RequestId("r"), "bot", ["p"], fail).decide(DictHeads(), 1)


def test_a_part_that_writes_nothing_is_done_too() -> None:
    def nothing(staged: StagedMemories, number: int) -> PartResult:
        return ["unchanged"]

    heads = DictHeads()
    appends, parts = decided(Batch(RequestId("r"), "bot", ["p"], nothing), heads)
    assert [append.entity for append in appends] == [ANSWER]
    assert parts.results == [["unchanged"]]


def test_all_that_is_read_is_named_before() -> None:
    asked: list[tuple[str, str]] = []

    class Watched(DictHeads):
        def __call__(self, entity: Any, id: str) -> Any:
            asked.append((entity.name, id))
            return super().__call__(entity, id)

    batch = batch_of(put("a"), put("b"), put("a"))
    heads: Heads = Watched()
    batch.decide(heads, 1)
    assert set(asked) - {("answer", "r")} == {(entity.name, id) for entity, id in batch.reads}
