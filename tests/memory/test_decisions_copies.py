"""The decisions of forks and imports, without a store."""

from typing import Any

import pytest

from hivemem_contracts.errors import AlreadyExists, InvalidRequest, NotFound
from hivemem_contracts.memory.requests import ImportedMemory
from hivemem_memory.decisions.copies import ForkProgress, MemoryCopy, copy_slice, fork_progress, import_memory, reads_of
from hivemem_memory.decisions.preconditions import CurrentHead
from hivemem_memory.entities.answers import ANSWER
from hivemem_memory.entities.fences import FENCE, Fence
from hivemem_memory.entities.memories import MEMORY, MemoryHead, MemoryRecord
from hivemem_runtime.ledger.places import moved, place_of
from hivemem_runtime.ledger.port import Append, Decision

from .heads import NAMESPACE, DictHeads

INTO = "project:copy"


def copies_of(heads: DictHeads, *keys: str) -> list[MemoryCopy]:
    places = {key: place_of(NAMESPACE, key) for key in keys}
    return [MemoryCopy(place, moved(place, NAMESPACE, INTO), heads.memory(key)) for key, place in places.items()]


def copied(heads: DictHeads, copies: list[MemoryCopy], published_at: int | None = None) -> Decision:
    progress = ForkProgress(NAMESPACE, INTO, heads.at)
    return copy_slice(heads, "r", copies, progress, "eve", published_at, heads.now)


def target(heads: DictHeads, key: str = "k") -> MemoryHead:
    head = heads(MEMORY, place_of(INTO, key))
    assert head is not None
    assert head.value is not None
    return head.value


def test_a_slice_comes_with_how_far_the_fork_is() -> None:
    heads = DictHeads()
    heads.put("a", 1)
    heads.put("b", 2)
    decision = copied(heads, copies_of(heads, "a", "b"))
    assert [(append.entity, append.id) for append in decision] == [
        (ANSWER, "r"),
        (MEMORY, place_of(INTO, "a")),
        (MEMORY, place_of(INTO, "b")),
    ]
    assert fork_progress(decision[0].record) == ForkProgress(NAMESPACE, INTO, heads.at, entries=2, slices=1)
    heads.apply(decision)
    assert (target(heads, "a").value, target(heads, "b").value) == (1, 2)


def test_all_that_a_slice_reads_is_named_before() -> None:
    heads = DictHeads()
    heads.put("a", 1)
    asked: list[tuple[Any, str]] = []

    class Asked(DictHeads):
        def __call__(self, entity: Any, id: str) -> Any:
            asked.append((entity, id))
            return heads(entity, id)

    copies = copies_of(heads, "a")
    for published_at in (None, 0):
        asked.clear()
        copy_slice(Asked(), "r", copies, ForkProgress(NAMESPACE, INTO, heads.at), "eve", published_at, heads.now)
        assert asked == reads_of(copies, published_at)


def test_the_original_may_have_changed_or_gone_since() -> None:
    heads = DictHeads()
    heads.put("a", 1)
    heads.put("b", 1)
    copies = copies_of(heads, "a", "b")
    progress = ForkProgress(NAMESPACE, INTO, heads.at)
    heads.put("a", 2)
    heads.delete("b")
    decision = copy_slice(heads, "r", copies, progress, "eve", None, heads.now)
    assert [append.record.value for append in decision[1:]] == [1, 1]


def test_what_was_erased_since_is_left_out_even_if_it_lives_again() -> None:
    heads = DictHeads()
    for key in ("a", "b", "c"):
        heads.put(key, 1)
    copies = copies_of(heads, "a", "b", "c")
    progress = ForkProgress(NAMESPACE, INTO, heads.at)
    heads.forget("a")
    heads.forget("b")
    heads.put("b", 2)
    decision = copy_slice(heads, "r", copies, progress, "eve", None, heads.now)
    assert [append.id for append in decision[1:]] == [place_of(INTO, "c")]
    assert fork_progress(decision[0].record).entries == 1


def test_an_erasure_before_the_moment_is_no_obstacle() -> None:
    heads = DictHeads()
    heads.put("a", 1)
    heads.forget("a")
    heads.put("a", 2)
    assert [append.record.value for append in copied(heads, copies_of(heads, "a"))[1:]] == [2]


def test_a_target_that_lives_is_not_overwritten() -> None:
    heads = DictHeads()
    heads.put("k", 1)
    copies = copies_of(heads, "k")
    heads.apply(copied(heads, copies))
    with pytest.raises(AlreadyExists):
        copied(heads, copies)


def test_a_late_copy_does_not_land_on_what_was_erased() -> None:
    heads = DictHeads()
    heads.put("k", 1)
    copies = copies_of(heads, "k")
    published_at = heads.at
    heads.apply(copied(heads, copies))
    heads.erase(MEMORY, place_of(INTO, "k"))
    erased_at = heads.at
    heads.apply([Append(FENCE, place_of(INTO), Fence(erased_at))])
    with pytest.raises(NotFound):
        copied(heads, copies, published_at)
    heads.apply(copied(heads, copies))
    assert target(heads).erased_at == erased_at


def line(value: Any = 1, **fields: Any) -> ImportedMemory:
    return ImportedMemory.model_validate({"namespace": NAMESPACE, "key": "k", "value": value, **fields})


def outcome(
    item: ImportedMemory, head: CurrentHead, now: int, existing: str = "update"
) -> tuple[str, MemoryRecord | None]:
    return import_memory(item, existing, head, "eve", now)


def test_what_a_line_becomes() -> None:
    heads = DictHeads()
    assert outcome(line(), None, 1)[0] == "created"
    heads.put("k", 1)
    assert outcome(line(), heads.head(), heads.now) == ("unchanged", None)
    assert outcome(line(True), heads.head(), heads.now)[0] == "updated"
    assert outcome(line(2), heads.head(), heads.now, "keep") == ("kept", None)
    heads.delete("k")
    assert outcome(line(), heads.head(), heads.now, "keep")[0] == "created"


def test_an_update_keeps_who_made_it_and_a_new_life_does_not() -> None:
    heads = DictHeads()
    heads.put("k", 1)
    created_at = heads.memory().created_at
    _, record = outcome(line(2), heads.head(), heads.now)
    assert record is not None
    assert (record.created_by, record.created_at) == ("bot", created_at)
    heads.forget("k")
    erased_at = heads.at
    _, record = outcome(line(2), heads.head(), heads.now)
    assert record is not None
    assert (record.created_by, record.created_at, record.erased_at) == ("eve", None, erased_at)


@pytest.mark.parametrize("existing", ["update", "keep"])
def test_a_line_that_has_ended_is_refused(existing: str) -> None:
    heads = DictHeads()
    heads.put("k", 1)
    late = line(expires_at="1970-01-01T00:00:00Z")
    for head in (None, heads.head()):
        with pytest.raises(InvalidRequest) as refused:
            outcome(late, head, heads.now, existing)
        assert refused.value.context["field"] == "expires_at"
