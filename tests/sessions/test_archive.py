"""Old events move to cold storage by age or with their session, and stay readable in every way."""

from collections.abc import Sequence
from typing import Any

import pytest

from hivemem_runtime.ledger.entity import AnyEntity
from hivemem_sessions.entities import SESSION
from hivemem_sessions.reactions import cold_storage

from .conftest import ARCHIVE_AFTER_EVENTS
from .hive import Agent, Body, eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")

COUNT = 600


async def fill(bot: Agent, session_id: str = "s1", count: int = COUNT) -> None:
    appends = [
        {
            "session_id": session_id,
            "event": {"type": f"type-{n % 3}", "author": f"author-{n % 2}", "content": n, "event_id": f"e{n}"},
            "state_delta": {"n": n, "temp:t": n},
        }
        for n in range(1, count + 1)
    ]
    await bot.ask("append_batch", appends=appends)


async def hot(bot: Agent, session_id: str = "s1") -> int:
    """Return how many events were still hot. This freezes all of them, since `freeze` returns the number it moved."""
    return await bot.ledger.freeze(SESSION, bot.tenant, session_id, 2**53, limit=10_000)


async def everything(bot: Agent, session_id: str) -> list[object]:
    """Return the answers of every way of reading."""
    middle = (await bot.ask("events", session_id=session_id, after=COUNT // 2 - 1, limit=1))["items"][0]["at"]
    found: list[object] = [
        await bot.session(session_id, revision=1),
        await bot.session(session_id, revision=COUNT // 2),
        await bot.session(session_id, at=middle),
        (await bot.ask("get", session_id=session_id, events=20))["events"],
        await bot.ask("get", session_id=session_id, events=20, revision=50),
    ]
    ways: Sequence[Body] = (
        {"limit": 170},
        {"limit": 170, "reverse": True},
        {"after": 200, "before": 300, "limit": 33},
        {"after": 200, "before": 300, "limit": 33, "reverse": True},
        {"type": "type-1", "limit": 70},
        {"type": "type-2", "author": "author-1", "limit": 70, "reverse": True},
        {"since": middle, "limit": 100},
        {"until": middle, "limit": 100, "reverse": True},
    )
    return [*found, *[await bot.events(session_id, **way) for way in ways]]


async def test_old_events_move_by_themselves_and_read_the_same(bot: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = bot.ledger
    freeze, moved = ledger.freeze, list[int]()

    async def noted(entity: AnyEntity, tenant: str, *place: Any, **options: Any) -> int:
        count = await freeze(entity, tenant, *place, **options)
        moved.append(count if tenant == bot.tenant else 0)
        return count

    monkeypatch.setattr(ledger, "freeze", noted)
    await bot.create("s1")
    last = cold_storage.STEP * 2
    await fill(bot, count=last - 1)
    await bot.announced()
    await bot.append("s1", event_id=f"e{last}")
    before = await bot.session("s1")
    await eventually(lambda: sum(moved) == 1 + last - ARCHIVE_AFTER_EVENTS, "old events are moved")
    assert await bot.session("s1") == before
    assert await bot.sequences("s1", limit=200) == list(range(1, last + 1))
    assert (await bot.append("s1", event_id="e1"))["duplicate"] is True
    await bot.announced()
    assert await hot(bot) == ARCHIVE_AFTER_EVENTS


async def test_frozen_history_reads_as_it_did_before(bot: Agent) -> None:
    await bot.create("s1")
    await fill(bot)
    before = await everything(bot, "s1")
    await bot.announced()
    ledger = bot.ledger
    await cold_storage.freeze_through(ledger, bot.tenant, "s1", 433)
    assert await everything(bot, "s1") == before
    assert await hot(bot) > 0
    assert await everything(bot, "s1") == before
    assert (await bot.append("s1", event_id="e7"))["sequence"] == 7
    assert (await bot.append("s1"))["sequence"] == COUNT + 1


async def test_an_archived_session_is_cold_and_readable(bot: Agent) -> None:
    await bot.create("s1")
    await fill(bot)
    ended = await bot.ask("terminate", session_id="s1")
    assert "temp:t" not in ended["state"]
    before = await everything(bot, "s1")
    archived = await bot.ask("archive", session_id="s1")
    assert archived["state"] == {"n": COUNT}

    async def cold() -> bool:
        reactions = (await bot.worker.probe())["reactions"]
        return reactions["archive"]["lag"] == 0 and await hot(bot) == 0

    await eventually(cold, "all is in cold storage")
    assert await everything(bot, "s1") == before
    assert {**await bot.session("s1"), "duplicate": False} == archived
    fork = await bot.ask("fork", session_id="s1", revision=201, new_session_id="f")
    assert fork["state"] == {"n": 200}
    assert (await bot.append("f"))["sequence"] == 201
    assert await bot.sequences("f", limit=150) == list(range(1, 202))


async def test_a_frozen_session_can_be_deleted_and_its_forks_stay_whole(bot: Agent) -> None:
    await bot.create("s1")
    await fill(bot)
    await bot.ask("fork", session_id="s1", revision=301, new_session_id="f")
    await bot.announced()
    assert await hot(bot) > 0
    await bot.ask("delete", session_id="s1")
    assert await bot.sequences("f", limit=77) == list(range(1, 301))
    assert await bot.sequences("f", limit=77, reverse=True) == list(range(300, 0, -1))
    assert await bot.sequences("f", type="type-1", limit=1_000) == list(range(1, 301, 3))
    await bot.ask("delete", session_id="f")
    assert await bot.ledger.history(SESSION, bot.tenant, "s1", limit=10) == []
