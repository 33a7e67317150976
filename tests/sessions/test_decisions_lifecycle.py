"""The rules of creating, status changes, appending and forking, without a store."""

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hivemem_contracts.errors import AlreadyExists, IllegalTransition, NotFound, RevisionConflict, TooLarge
from hivemem_contracts.limits import VALUE_BYTES
from hivemem_contracts.sessions.models import NewEvent
from hivemem_contracts.sessions.requests import AppendEvent, UpdateSession
from hivemem_runtime.ledger.port import Head
from hivemem_sessions.decisions import append_event, change_status, fork_session, update_session
from hivemem_sessions.decisions.shares import SEGMENTS
from hivemem_sessions.endpoints.event_pages import ranges_between
from hivemem_sessions.entities import SESSION, SessionHead, SessionRecord, Share

from .heads import DictHeads

STATUSES = ("created", "active", "paused", "terminated", "archived")
LEGAL = {
    ("created", "active"),
    ("created", "terminated"),
    ("active", "paused"),
    ("active", "terminated"),
    ("paused", "active"),
    ("paused", "terminated"),
    ("terminated", "archived"),
}


@given(st.lists(st.sampled_from([*STATUSES, "event"]), max_size=12))
def test_any_walk_through_the_statuses_follows_the_table(steps: list[str]) -> None:
    heads = DictHeads()
    heads.create(initial_state={"temp:a": 1, "b": 2})
    status, events = "created", 0
    for step in steps:
        open_now = status in ("created", "active", "paused")
        if step == "event":
            if open_now:
                record = heads.append()
                events += 1
                assert record.sequence == events
                status = "active" if status == "created" else status
            else:
                with pytest.raises(IllegalTransition) as refused:
                    heads.append()
                assert refused.value.context["status"] == status
        elif (status, step) in LEGAL:
            heads.apply(change_status(heads, "s1", step))
            status = step
        else:
            with pytest.raises(IllegalTransition) as refused:
                change_status(heads, "s1", step)
            assert refused.value.context["allowed"] == [to for at, to in sorted(LEGAL) if at == status]
        session = heads.session()
        assert (session.status, session.event_count) == (status, events)
        assert ("temp:a" in session.state) == (status in ("created", "active", "paused"))
        assert (session.terminated_at is None) == (status in ("created", "active", "paused"))
        assert (session.archived_at is None) == (status != "archived")


def test_what_is_not_there_is_not_found() -> None:
    heads = DictHeads()
    for decide in (
        lambda: change_status(heads, "s1", "active"),
        lambda: heads.append(),
        lambda: fork_session(heads, "s1", Head("s1", 1, 1, None), "f"),
    ):
        with pytest.raises(NotFound):
            decide()
    heads.create()
    heads.erase(SESSION, "s1")
    with pytest.raises(NotFound):
        heads.append()


def test_an_id_is_created_once_until_it_is_erased() -> None:
    heads = DictHeads()
    heads.create()
    heads.append()
    with pytest.raises(AlreadyExists):
        heads.create()
    heads.erase(SESSION, "s1")
    heads.create()
    assert heads.session().offset == 3
    assert heads.append().position == 4
    assert heads.session().event_count == 1


def test_the_revision_is_looked_at_before_the_status() -> None:
    heads = DictHeads()
    heads.create()
    heads.apply(change_status(heads, "s1", "terminated"))
    with pytest.raises(RevisionConflict):
        heads.append(expect_revision=1)
    with pytest.raises(IllegalTransition):
        heads.append(expect_revision=2)


def test_an_event_is_kept_as_it_was_sent() -> None:
    heads = DictHeads()
    heads.create()
    event = NewEvent(type="t", author="a", content=[1], metadata={"m": 1}, parent_id="p")
    [append] = append_event(heads, AppendEvent(session_id="s1", event=event), "e1", "bot")
    record: SessionRecord = append.record
    assert record.event == {
        "event_id": "e1",
        "type": "t",
        "author": "a",
        "content": [1],
        "metadata": {"m": 1},
        "parent_id": "p",
    }
    assert (record.status, record.previous_status) == ("active", "created")


def update(heads: DictHeads, **fields: Any) -> None:
    heads.apply(update_session(heads, UpdateSession(session_id="s1", **fields)))


def test_an_update_patches_the_metadata_and_moves_the_session() -> None:
    heads = DictHeads()
    heads.create(metadata={"title": "trip", "tags": {"a": 1, "b": 2}}, project_id="p")
    heads.apply(change_status(heads, "s1", "terminated"))
    update(heads, metadata={"title": None, "tags": {"b": 3}, "index_events": True})
    assert heads.session().metadata == {"tags": {"a": 1, "b": 3}, "index_events": True}
    assert heads.session().project_id == "p"
    update(heads, project_id="q", expect_revision=3)
    assert (heads.session().project_id, heads.session().metadata["tags"]) == ("q", {"a": 1, "b": 3})


def test_an_update_is_refused_at_another_revision_and_beyond_the_size_of_metadata() -> None:
    heads = DictHeads()
    with pytest.raises(NotFound):
        update(heads, project_id="p")
    heads.create(metadata={"a": "x" * (VALUE_BYTES // 2)})
    with pytest.raises(RevisionConflict):
        update(heads, project_id="p", expect_revision=2)
    with pytest.raises(TooLarge) as refused:
        update(heads, metadata={"b": "y" * (VALUE_BYTES // 2)})
    assert refused.value.context["field"] == "metadata"
    update(heads, metadata={"a": None, "b": "y" * (VALUE_BYTES // 2)})


class Story:
    """A model of sessions: each has a list of its events as (owner, number), fork by fork."""

    def __init__(self) -> None:
        self.heads = DictHeads()
        self.events: dict[str, list[tuple[str, int]]] = {}

    def create(self) -> None:
        session_id = f"s{len(self.events)}"
        self.heads.create(session_id)
        self.events[session_id] = []

    def append(self, session_id: str) -> None:
        self.heads.append(session_id)
        self.events[session_id].append((session_id, len(self.events[session_id]) + 1))

    def fork(self, session_id: str, record: int) -> None:
        records = self.heads.records["session", session_id]
        record %= len(records)
        value: SessionHead | None = None
        for stamp, each in records[: record + 1]:
            value = SESSION.evolve(value, each, stamp)
        assert value is not None
        fork_id = f"s{len(self.events)}"
        origin = Head(session_id, record + 1, 0, value)
        self.heads.apply(fork_session(self.heads, session_id, origin, fork_id))
        self.events[fork_id] = self.events[session_id][: value.event_count]

    def read(self, session_id: str, after: int, before: int, reverse: bool) -> list[tuple[str, int]]:
        found: list[tuple[str, int]] = []
        for part in ranges_between(session_id, self.heads.session(session_id), after, before, reverse):
            positions = list(range(part.first + 1, part.last))
            found += [(part.owner, position) for position in (positions[::-1] if reverse else positions)]
        return found


steps = st.lists(
    st.tuples(st.sampled_from(["append", "append", "fork"]), st.integers(0, 30), st.integers(0, 30)), max_size=30
)


@given(steps, st.integers(0, 12), st.integers(1, 14), st.booleans())
def test_forks_of_forks_read_what_they_share(
    steps: list[tuple[str, int, int]], after: int, before: int, reverse: bool
) -> None:
    story = Story()
    story.create()
    for what, which, record in steps:
        session_id = f"s{which % len(story.events)}"
        if what == "append":
            story.append(session_id)
        else:
            story.fork(session_id, record)
    for session_id, events in story.events.items():
        session = story.heads.session(session_id)
        assert session.event_count == len(events)
        expected = [event for event in events[after:] if event[1] < before]
        found = story.read(session_id, after, min(before, session.event_count + 1), reverse)
        assert found == (expected[::-1] if reverse else expected)
    shares: list[Share] = [head.value for key, head in story.heads.heads.items() if key[0] == "share" and head.value]
    for session_id in story.events:
        shared = [
            number
            for other, events in story.events.items()
            if other != session_id
            for owner, number in events
            if owner == session_id
        ]
        assert max((share.position for share in shares if share.owner == session_id), default=0) >= max(
            shared, default=0
        )


def test_a_fork_takes_no_temporary_state_and_begins_alive() -> None:
    heads = DictHeads()
    heads.create(initial_state={"temp:a": 1, "b": 2, "user:c": 3}, metadata={"m": 1}, project_id="p")
    heads.append()
    heads.apply(change_status(heads, "s1", "terminated"))
    origin = heads(SESSION, "s1")
    assert origin is not None
    heads.apply(fork_session(heads, "s1", origin, "f"))
    fork = heads.session("f")
    assert (fork.state, fork.state_bytes, fork.status, fork.metadata) == ({"b": 2}, 6, "active", {"m": 1})
    assert fork.origin == {"session_id": "s1", "revision": 3, "sequence": 1}
    assert (fork.terminated_at, fork.project_id) == (None, "p")
    with pytest.raises(AlreadyExists):
        fork_session(heads, "s1", origin, "f")
    gone: Head[Any] = Head("s1", 9, 9, None)
    with pytest.raises(NotFound):
        fork_session(heads, "s1", gone, "g")


def test_a_session_that_was_erased_since_it_was_read_is_not_forked() -> None:
    heads = DictHeads()
    heads.create()
    heads.append()
    origin = heads(SESSION, "s1")
    assert origin is not None
    heads.erase(SESSION, "s1")
    heads.create()
    with pytest.raises(NotFound):
        fork_session(heads, "s1", origin, "f")


def test_events_come_from_so_many_sessions_at_most() -> None:
    heads = DictHeads()
    heads.create("s0")
    heads.append("s0")
    for number in range(SEGMENTS):
        origin = heads(SESSION, f"s{number}")
        assert origin is not None
        heads.apply(fork_session(heads, f"s{number}", origin, f"s{number + 1}"))
        heads.append(f"s{number + 1}")
    origin = heads(SESSION, f"s{SEGMENTS}")
    assert origin is not None
    with pytest.raises(TooLarge) as refused:
        fork_session(heads, f"s{SEGMENTS}", origin, "one too many")
    assert refused.value.context == {"field": "fork", "limit": SEGMENTS, "actual": SEGMENTS + 1}


def test_every_pair_of_statuses_is_covered_by_the_table() -> None:
    assert set(itertools.product(STATUSES, STATUSES)) > LEGAL
