"""The rules of putting, patching and deleting, without a store."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hivemem_contracts.errors import HiveError, InvalidRequest, NotFound, RevisionConflict, TooLarge
from hivemem_contracts.identifiers import time_from_microseconds
from hivemem_contracts.limits import MEMORY_VALUE_BYTES
from hivemem_contracts.memory.models import Source
from hivemem_contracts.memory.requests import PutMemory
from hivemem_memory.decisions.writes import put_memory
from hivemem_memory.entities.memories import digest_of
from hivemem_runtime.merge_patch import merge_patch

from .heads import NAMESPACE, DictHeads

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LATER = EPOCH + timedelta(days=1)
EVERYTHING: dict[str, Any] = {
    "memory_type": "episodic",
    "metadata": {"tag": 1},
    "importance": 0.5,
    "valid_from": EPOCH,
    "valid_to": LATER,
    "expires_at": LATER,
    "source": Source(session_id="s", event_id="e"),
    "index": ["a text"],
}
KEPT = (
    "memory_type",
    "metadata",
    "importance",
    "valid_from",
    "valid_to",
    "expires_at",
    "source",
    "index",
    "created_by",
)


def kept(heads: DictHeads) -> dict[str, Any]:
    memory = heads.memory()
    return {name: getattr(memory, name) for name in KEPT}


def test_the_first_put_creates_with_defaults() -> None:
    heads = DictHeads()
    record = heads.put("k", {"a": 1}, agent="ann")
    memory = heads.memory()
    assert record.created_at is None
    assert (memory.version, memory.value, memory.memory_type, memory.metadata) == (1, {"a": 1}, "semantic", {})
    assert (memory.importance, memory.valid_from, memory.expires_at, memory.source) == (None, None, None, None)
    assert (memory.created_by, memory.created_at, memory.updated_by) == ("ann", 1, "ann")
    assert memory.digest == digest_of(record) != ""


def test_what_a_put_leaves_out_stays_as_it_was() -> None:
    heads = DictHeads()
    heads.put("k", 1, agent="ann", **EVERYTHING)
    before = kept(heads)
    heads.put("k", 2, agent="bob")
    assert kept(heads) == before
    memory = heads.memory()
    assert (memory.value, memory.created_by, memory.created_at) == (2, "ann", 1)
    assert (memory.updated_by, memory.updated_at) == ("bob", 2)


@pytest.mark.parametrize(
    ("source", "field"),
    [({}, "source"), ({"event_id": "e"}, "source.session_id"), ({"cycle": 1, "task_id": "t"}, "source.agent_id")],
)
def test_a_source_names_something_as_a_whole(source: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        DictHeads().put(source=Source(**source))
    assert refused.value.context["field"] == field


def test_a_source_without_later_fields_has_the_digest_of_earlier_releases() -> None:
    heads = DictHeads()
    heads.put(source=Source(session_id="s"))
    assert heads.memory().source == {"session_id": "s", "event_id": None}


@pytest.mark.parametrize("name", ["importance", "valid_from", "valid_to", "expires_at", "source", "index"])
def test_an_explicit_null_takes_one_field_away(name: str) -> None:
    heads = DictHeads()
    heads.put("k", 1, **EVERYTHING)
    before = kept(heads)
    taken: dict[str, Any] = {name: None}
    heads.put("k", 1, **taken)
    assert kept(heads) == {**before, name: None}


@pytest.mark.parametrize("name", ["metadata", "memory_type"])
def test_a_null_where_null_means_nothing_is_left_out(name: str) -> None:
    heads = DictHeads()
    heads.put("k", 1, **EVERYTHING)
    before = kept(heads)
    taken: dict[str, Any] = {name: None}
    heads.put("k", 1, **taken)
    assert kept(heads) == before


def test_metadata_is_replaced_as_a_whole() -> None:
    heads = DictHeads()
    heads.put("k", 1, metadata={"a": 1, "b": 2})
    heads.put("k", 1, metadata={"c": 3})
    assert heads.memory().metadata == {"c": 3}
    heads.put("k", 1, metadata={})
    assert heads.memory().metadata == {}


@pytest.mark.parametrize("end", ["deleted", "expired", "erased"])
def test_a_put_on_what_does_not_live_begins_a_new_life(end: str) -> None:
    heads = DictHeads()
    heads.put("k", 1, agent="ann", **EVERYTHING)
    if end == "deleted":
        heads.delete()
    elif end == "erased":
        heads.forget()
    else:
        heads.at = heads.memory().expires_at or 0
    expected = heads.head()
    assert expected is not None
    record = heads.put("k", 2, agent="bob")
    memory = heads.memory()
    assert record.created_at is None
    assert (memory.version, memory.value) == (expected.version + 1, 2)
    assert (memory.memory_type, memory.metadata, memory.importance, memory.expires_at) == ("semantic", {}, None, None)
    assert (memory.created_by, memory.created_at) == ("bob", memory.updated_at)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({}, {"valid_from": LATER, "valid_to": EPOCH}),
        ({}, {"valid_from": EPOCH, "valid_to": EPOCH}),
        ({"valid_from": LATER}, {"valid_to": EPOCH}),
        ({"valid_to": EPOCH}, {"valid_from": LATER}),
    ],
)
def test_a_memory_holds_from_a_moment_before_it_ends(first: dict[str, Any], second: dict[str, Any]) -> None:
    heads = DictHeads()
    heads.put("k", 1, **first)
    with pytest.raises(InvalidRequest, match=r"valid_to: 1970-01-01T00:00:00\.000000Z is not after") as refused:
        heads.put("k", 2, **second)
    assert refused.value.context == {"field": "valid_to"}


def test_a_memory_that_would_be_expired_at_once_is_refused() -> None:
    heads = DictHeads(at=10)
    with pytest.raises(InvalidRequest, match=r"expires_at: 1970-01-01T00:00:00\.000011Z is past") as refused:
        heads.put("k", 1, expires_at=time_from_microseconds(11))
    assert refused.value.context == {"field": "expires_at"}
    heads.put("k", 1, expires_at=time_from_microseconds(12))


def erased(heads: DictHeads) -> None:
    heads.put()
    heads.forget()


def deleted(heads: DictHeads) -> None:
    heads.put()
    heads.delete()


def living(heads: DictHeads) -> None:
    heads.put()
    heads.put()


def expired(heads: DictHeads) -> None:
    heads.put(expires_at=time_from_microseconds(100))
    heads.put()
    heads.at = 99


@pytest.mark.parametrize(
    ("prepare", "version", "lives"),
    [(None, 0, False), (living, 2, True), (deleted, 2, False), (erased, 2, False), (expired, 2, False)],
)
def test_a_put_expects_a_version_or_that_nothing_lives(prepare: Any, version: int, lives: bool) -> None:
    for expected in range(4):
        heads = DictHeads()
        if prepare is not None:
            prepare(heads)
        allowed = expected == version if expected else not lives
        if allowed:
            heads.put("k", 1, expect_version=expected)
            continue
        with pytest.raises(RevisionConflict) as refused:
            heads.put("k", 1, expect_version=expected)
        assert refused.value.context == {"expected": expected, "actual": version}


@pytest.mark.parametrize("prepare", [None, deleted, erased, expired])
def test_what_does_not_live_is_neither_patched_nor_deleted(prepare: Any) -> None:
    heads = DictHeads()
    if prepare is not None:
        prepare(heads)
    for expected in (None, 0, 1):
        with pytest.raises(NotFound) as refused:
            heads.patch("k", {}, expect_version=expected)
        assert refused.value.context == {"namespace": "user:alice", "key": "k"}
        with pytest.raises(NotFound):
            heads.delete(expect_version=expected)


def test_a_deletion_is_a_version_that_keeps_all_but_the_value() -> None:
    heads = DictHeads()
    heads.put("k", 1, agent="ann", **EVERYTHING)
    before = kept(heads)
    record = heads.delete(agent="bob")
    memory = heads.memory()
    assert (record.operation, record.value, record.deleted) == ("delete", None, True)
    assert (memory.version, memory.deleted, memory.updated_by, memory.created_at) == (2, True, "bob", 1)
    assert memory.value == 1, "a restore finds it here"
    assert kept(heads) == before
    assert record.digest == digest_of(record)


def test_a_write_expects_the_version() -> None:
    heads = DictHeads()
    heads.put("k", {})
    for expected in (0, 2):
        with pytest.raises(RevisionConflict) as refused:
            heads.patch("k", {"a": 1}, expect_version=expected)
        assert refused.value.context == {"expected": expected, "actual": 1}
        with pytest.raises(RevisionConflict):
            heads.delete(expect_version=expected)
    heads.patch("k", {"a": 1}, expect_version=1)
    heads.delete(expect_version=2)


def test_a_patch_keeps_all_but_the_value() -> None:
    heads = DictHeads()
    heads.put("k", {"a": {"b": 1, "c": 2}, "d": 3}, agent="ann", **EVERYTHING)
    before = kept(heads)
    first = heads.memory().value
    record = heads.patch("k", {"a": {"b": None, "e": 4}, "d": None}, agent="bob")
    assert (record.operation, heads.memory().value) == ("patch", {"a": {"c": 2, "e": 4}})
    assert kept(heads) == before
    assert heads.memory().updated_by == "bob"
    assert first == {"a": {"b": 1, "c": 2}, "d": 3}, "the version before is as it was"


def test_a_patch_may_not_make_a_memory_too_large() -> None:
    heads = DictHeads()
    half = "x" * (MEMORY_VALUE_BYTES // 2)
    heads.put("k", {"a": half})
    room = MEMORY_VALUE_BYTES - len(half) - len('{"a":"","b":""}')
    heads.patch("k", {"b": "x" * room})
    with pytest.raises(TooLarge) as refused:
        heads.patch("k", {"b": "x" * (room + 1)})
    assert refused.value.context == {
        "field": "patch",
        "limit": MEMORY_VALUE_BYTES,
        "actual": MEMORY_VALUE_BYTES + 1,
    }


@pytest.mark.parametrize("erased", ["k", None])
def test_what_was_published_before_an_erasure_is_refused_whatever_came_since(erased: str | None) -> None:
    heads = DictHeads()
    heads.put()
    heads.fence(erased)
    fenced_at = heads.at
    for _ in range(3):
        with pytest.raises(NotFound, match="'k' of 'user:alice' was erased after this was published"):
            heads.put("k", 1, published_at=fenced_at - 1)
        heads.put("k", 1, published_at=fenced_at)
    heads.delete()
    with pytest.raises(NotFound, match="erased after this was published"):
        heads.put("k", 1, published_at=fenced_at - 1)


def test_a_namespace_that_was_erased_is_closed_to_what_was_not_there_yet() -> None:
    heads = DictHeads()
    heads.put("k")
    heads.fence("k")
    heads.put("other", 1, published_at=1)
    heads.fence(None)
    with pytest.raises(NotFound):
        heads.put("new", 1, published_at=1)
    below = PutMemory(namespace=f"{NAMESPACE}:notes", key="new", value=1)
    with pytest.raises(NotFound):
        put_memory(heads, None, below, "bot", 1, heads.now)
    for namespace in ("user:alicex", "user:bob", "app:alice"):
        beside = PutMemory(namespace=namespace, key="new", value=1)
        assert put_memory(heads, None, beside, "bot", 1, heads.now).value == 1


def test_an_order_to_erase_that_was_published_reaches_back_from_there() -> None:
    """Commands that its agent published after it take effect after it, although it is carried out later."""
    heads = DictHeads(at=100)
    heads.put("k")
    heads.fence("k", at=50)
    heads.forget()
    with pytest.raises(NotFound):
        heads.put("k", 1, published_at=49)
    heads.put("k", 1, published_at=51)
    heads.fence("k", at=40)
    with pytest.raises(NotFound):
        heads.put("k", 1, published_at=49)


MERGES: list[tuple[Any, Any, Any]] = [
    # The examples of RFC 7396, appendix A.
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "b"}, ["c"], ["c"]),
    ({"a": "foo"}, None, None),
    ({"a": "foo"}, "bar", "bar"),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


@pytest.mark.parametrize(("target", "patch", "expected"), MERGES)
def test_a_merge_patch_is_that_of_its_standard(target: Any, patch: Any, expected: Any) -> None:
    assert merge_patch(target, patch) == expected


values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=2),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


@given(values, values)
def test_a_patch_leaves_what_it_was_given_alone_and_is_the_same_twice(target: Any, patch: Any) -> None:
    before = repr((target, patch))
    once = merge_patch(target, patch)
    assert repr((target, patch)) == before
    assert merge_patch(once, patch) == once


@given(st.lists(st.sampled_from(["put", "patch", "delete", "restore", "erase", "expiring"]), max_size=20))
def test_versions_count_every_write_and_a_life_keeps_its_creator(writes: list[str]) -> None:
    heads = DictHeads()
    version, creator = 0, ""
    for number, write in enumerate(writes):
        agent, alive = f"a{number}", bool(creator)
        try:
            if write == "put":
                heads.put("k", number, agent=agent)
                creator = creator or agent
            elif write == "expiring":
                heads.put("k", number, agent=agent, expires_at=LATER)
                creator = creator or agent
            elif write == "patch":
                heads.patch("k", {"n": number}, agent=agent)
            elif write == "delete":
                heads.delete(agent=agent)
                creator = ""
            elif write == "restore":
                heads.restore(agent=agent)
                creator = heads.memory().created_by
            elif heads.head() is not None:
                heads.forget()
                creator = ""
            else:
                continue
        except HiveError:
            assert (write in ("patch", "delete") and not alive) or write == "restore"
            continue
        version += 1
        head = heads.head()
        assert head is not None
        assert head.version == version
        if head.value is not None:
            assert (head.value.version, head.value.deleted) == (version, not creator)
            assert head.value.created_by == creator or head.value.deleted
