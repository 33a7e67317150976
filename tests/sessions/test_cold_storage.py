"""The archiver alone: which sessions it checks, and that no error ends it."""

import asyncio
from collections import deque
from typing import Any, cast

import pytest
from nats.aio.client import Client

from hivemem_contracts.errors import Unavailable
from hivemem_runtime.ledger.entity import Stamp
from hivemem_runtime.ledger.port import Committed, Due, Head, Ledger, Listener, Record
from hivemem_sessions.entities import SCOPE, SESSION, ScopeRecord, SessionRecord
from hivemem_sessions.reactions import cold_storage
from hivemem_sessions.reactions.cold_storage import STEP, Archiver, freeze_announced, freeze_through

from .hive import eventually

KEEP = 100


class Frozen:
    """A ledger with listeners and positions that records what was frozen."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.frozen: list[int] = []
        self.left = 0
        self.done = asyncio.Event()
        self.version = 7
        self.announced = deque([7])
        """The announced version at each check; the last one is repeated."""
        self.listener: Listener

    def on_commit(self, listener: Listener) -> None:
        self.listener = listener

    async def history(self, *place: Any, after: int, **options: Any) -> list[Record[SessionRecord]]:
        if self.failures:
            raise self.failures.pop(0)
        stamp = Stamp("t", "session", "s", after + 2, 1, "bot")
        return [Record(stamp, SessionRecord("event", sequence=after + 1))] if after < 1_000 else []

    async def head(self, entity: Any, tenant: str, id: str) -> Head[Any] | None:
        return None if id == "gone" else Head(id, self.version, 5, object())

    async def due(self, *, older_than: int, limit: int) -> list[Due]:
        mark = self.announced.popleft() if len(self.announced) > 1 else self.announced[0]
        return [] if mark == self.version else [Due("t", "session", "s", mark, self.version, False, 5)][:limit]

    async def freeze(self, entity: Any, tenant: str, id: str, through: int, *, limit: int) -> int:
        self.frozen.append(through)
        self.done.set()
        step = min(self.left, limit)
        self.left -= step
        return step

    def commit(self, sequence: int | None, *, erased: bool = False) -> None:
        record = None if erased else SessionRecord("event", sequence=sequence)
        self.listener([Committed(SESSION, Stamp("t", "session", "s", 1, 1, "bot"), record, None, 0, erased)])


def archiver_of(ledger: Frozen) -> Archiver:
    return Archiver(cast("Ledger", ledger), KEEP)


async def test_a_session_is_looked_at_now_and_then() -> None:
    ledger = Frozen()
    archiver = archiver_of(ledger)
    ledger.listener([Committed(SCOPE, Stamp("t", "state", "s", 1, 1, "bot"), ScopeRecord({}, 0, "s"), None, 0)])
    ledger.commit(None)
    ledger.commit(None, erased=True)
    for sequence in range(1, 3 * STEP + 1):
        ledger.commit(sequence)
    await archiver.start(Client())
    await eventually(lambda: len(ledger.frozen) == 2, "both are frozen")
    assert ledger.frozen == [2 * STEP - KEEP + 1, 3 * STEP - KEEP + 1]
    await archiver.stop()


async def test_no_fault_ends_it(capsys: pytest.CaptureFixture[str]) -> None:
    ledger = Frozen(Unavailable("away"), ValueError("odd"))
    archiver = archiver_of(ledger)
    await archiver.start(Client())
    for sequence in (2 * STEP, 2 * STEP, 2_000 * STEP, 2 * STEP):
        ledger.commit(sequence)
    await asyncio.wait_for(ledger.done.wait(), 10)
    assert len(ledger.frozen) == 1
    said = "".join(capsys.readouterr())
    assert "freezing old events postponed" in said
    assert "freezing old events failed" in said
    await archiver.stop()


async def test_what_finds_no_room_comes_by_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cold_storage, "QUEUED_SESSIONS", 1)
    ledger = Frozen()
    archiver = archiver_of(ledger)
    for sequence in (2 * STEP, 3 * STEP):
        ledger.commit(sequence)
    await archiver.start(Client())
    await asyncio.wait_for(ledger.done.wait(), 10)
    assert ledger.frozen == [2 * STEP - KEEP + 1]
    await archiver.stop()


async def test_one_that_was_never_started_can_be_stopped() -> None:
    await archiver_of(Frozen()).stop()


async def test_freezing_goes_on_until_nothing_is_left() -> None:
    ledger = Frozen()
    ledger.left = 2 * cold_storage.RECORDS_AT_ONCE + 5
    assert await freeze_through(cast("Ledger", ledger), "t", "s", 7) == 2 * cold_storage.RECORDS_AT_ONCE + 5
    assert ledger.frozen == [7, 7, 7]


async def test_an_archived_session_is_frozen_once_it_is_known_as_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    """The change alone is no proof, since the feed may have lost it by then."""
    monkeypatch.setattr(cold_storage, "RECORDED_SECONDS", 0.0)
    ledger = Frozen()
    ledger.announced.extendleft([6, 3])
    await freeze_announced(cast("Ledger", ledger), "t", "s", 7)
    assert (ledger.frozen, list(ledger.announced)) == ([7], [7])
    ledger.announced = deque([6])
    await freeze_announced(cast("Ledger", ledger), "t", "s", 6)
    assert ledger.frozen == [7, 6]
    with pytest.raises(Unavailable):
        await freeze_announced(cast("Ledger", ledger), "t", "s", 7)
    assert ledger.frozen == [7, 6]


async def test_what_the_ledger_does_not_have_is_not_frozen() -> None:
    ledger = Frozen()
    await freeze_announced(cast("Ledger", ledger), "t", "s", 8)
    await freeze_announced(cast("Ledger", ledger), "t", "gone", 1)
    assert ledger.frozen == []


async def test_a_full_list_of_what_is_due_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cold_storage, "RECORDED_SECONDS", 0.0)
    monkeypatch.setattr(cold_storage, "DUE_KEYS", 0)
    ledger = Frozen()
    with pytest.raises(Unavailable):
        await freeze_announced(cast("Ledger", ledger), "t", "s", 7)
