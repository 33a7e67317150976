"""The rules of restoring, without a store."""

from datetime import UTC, datetime, timedelta

import pytest

from hivemem_contracts.errors import InvalidRequest, NotFound, RevisionConflict
from hivemem_contracts.identifiers import time_from_microseconds
from hivemem_contracts.memory.models import Source
from hivemem_memory.entities.memories import digest_of

from .heads import DictHeads

LATER = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=1)


def test_what_was_deleted_is_there_again_with_all_that_it_was() -> None:
    heads = DictHeads()
    source = Source(session_id="s")
    first = heads.put("k", {"a": 1}, agent="ann", metadata={"m": 1}, importance=1.0, expires_at=LATER, source=source)
    heads.delete(agent="bob")
    record = heads.restore(agent="cid")
    memory = heads.memory()
    assert (record.operation, memory.version, memory.deleted, memory.value) == ("restore", 3, False, {"a": 1})
    assert (memory.metadata, memory.importance, memory.expires_at) == ({"m": 1}, 1.0, first.expires_at)
    assert memory.source == {"session_id": "s", "event_id": None}
    assert (memory.created_by, memory.created_at, memory.updated_by) == ("ann", 1, "cid")
    assert memory.digest == first.digest == digest_of(record)


def test_an_older_version_holds_again_whether_its_memory_lives_or_not() -> None:
    heads = DictHeads()
    heads.put("k", 1, agent="ann")
    heads.put("k", 2, agent="bob", metadata={"m": 2})
    heads.restore(version=1)
    assert (heads.memory().value, heads.memory().metadata, heads.memory().version) == (1, {}, 3)
    heads.delete()
    heads.restore(version=2)
    memory = heads.memory()
    assert (memory.value, memory.metadata, memory.version, memory.deleted) == (2, {"m": 2}, 5, False)
    assert (memory.created_by, memory.created_at) == ("ann", 1)


def test_a_version_of_an_earlier_life_brings_its_creator_back() -> None:
    heads = DictHeads()
    heads.put("k", 1, agent="ann")
    heads.delete()
    heads.put("k", 2, agent="bob")
    heads.restore(version=1)
    memory = heads.memory()
    assert (memory.value, memory.created_by, memory.created_at) == (1, "ann", 1)


def test_a_time_of_expiry_that_has_passed_is_dropped() -> None:
    heads = DictHeads()
    heads.put("k", 1, expires_at=time_from_microseconds(50))
    heads.put("k", 2, expires_at=LATER)
    heads.restore(version=1)
    assert heads.memory().expires_at == 50
    heads.at = 60
    record = heads.restore()
    assert (record.value, record.expires_at) == (1, None), "what is expired counts as deleted"
    heads.restore(version=1)
    assert heads.memory().expires_at is None
    heads.restore(version=2)
    assert heads.memory().expires_at is not None
    assert heads.memory().digest == digest_of(heads.records["memory", "user\x02alice\x01k"][-1][1])


def test_what_lives_is_restored_to_a_version_that_is_named() -> None:
    heads = DictHeads()
    heads.put()
    with pytest.raises(InvalidRequest, match="name the version") as refused:
        heads.restore()
    assert refused.value.context == {"field": "version"}


def test_there_is_nothing_to_restore() -> None:
    heads = DictHeads()
    with pytest.raises(NotFound):
        heads.restore()
    with pytest.raises(NotFound):
        heads.restore(version=1)
    heads.put()
    heads.delete()
    with pytest.raises(NotFound, match="version 2 of memory 'k' of 'user:alice' is a deletion") as refused:
        heads.restore(version=2)
    assert refused.value.context == {"namespace": "user:alice", "key": "k", "version": 2}
    with pytest.raises(NotFound, match=r"version 3 .* does not exist"):
        heads.restore(version=3)
    heads.forget()
    with pytest.raises(NotFound):
        heads.restore()
    with pytest.raises(NotFound):
        heads.restore(version=1)


def test_a_version_that_was_read_just_before_its_erasure_stays_erased() -> None:
    heads = DictHeads()
    heads.put("k", "secret")
    records = dict(heads.records)
    heads.forget()
    heads.put("k", "new")
    heads.records = {place: [*records[place], *found] for place, found in heads.records.items()}
    with pytest.raises(NotFound):
        heads.restore(version=1)
    heads.put("k", "newer")
    heads.restore(version=3)
    assert heads.memory().value == "new"


def test_a_restore_expects_the_version() -> None:
    heads = DictHeads()
    heads.put()
    heads.delete()
    with pytest.raises(RevisionConflict) as refused:
        heads.restore(expect_version=1)
    assert refused.value.context == {"expected": 1, "actual": 2}
    heads.restore(expect_version=0)
    with pytest.raises(RevisionConflict) as refused:
        heads.restore(version=1, expect_version=0)
    assert refused.value.context == {"expected": 0, "actual": 3}
    heads.restore(version=1, expect_version=3)
