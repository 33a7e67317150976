"""Announced keys are erased; other keys are announced first."""

from typing import Any

import pytest
from nats.aio.client import Client

from hivemem_contracts.errors import RevisionConflict, Unavailable
from hivemem_runtime import erasing
from hivemem_runtime.bus.feed.announcer import Announcer
from hivemem_runtime.erasing import erase_announced
from hivemem_runtime.ledger.entity import Stamp
from hivemem_runtime.ledger.sqlite import SqliteLedger

from .things import TENANT, THING, count, count_many, told


async def erase(ledger: SqliteLedger, announcer: Announcer, **asked: Any) -> Stamp | None:
    return await erase_announced(ledger, announcer, THING, TENANT, "a", actor="bot", cause="why", **asked)


@pytest.fixture
def announcer(client: Client, ledger: SqliteLedger) -> Announcer:
    """An announcer that is not started, so nothing is announced before a test starts it."""
    return Announcer(ledger, [THING])


async def test_what_is_not_announced_yet_is_announced_first(
    client: Client, ledger: SqliteLedger, announcer: Announcer
) -> None:
    await count_many(ledger, ["a"] * 3)
    announcer.start(client)
    stamp = await erase(ledger, announcer)
    assert stamp is not None
    await announcer.flush_tombstone(stamp)
    assert await told(client) == {"a": [1, 2, 3, 4]}
    assert await ledger.history(THING, TENANT, "a", limit=10) == []
    await announcer.stop()


async def test_nothing_to_erase_is_none(client: Client, ledger: SqliteLedger, announcer: Announcer) -> None:
    assert await erase(ledger, announcer) is None


async def test_a_key_at_another_version_is_left_alone(
    client: Client, ledger: SqliteLedger, announcer: Announcer
) -> None:
    await count_many(ledger, ["a"] * 3)
    announcer.start(client)
    with pytest.raises(RevisionConflict):
        await erase(ledger, announcer, version=2)
    assert await erase(ledger, announcer, version=3) is not None
    await announcer.stop()


async def test_a_store_that_is_away_is_told(
    client: Client, ledger: SqliteLedger, announcer: Announcer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*arguments: Any, **options: Any) -> Any:
        raise Unavailable("away", retry_after_ms=1)

    monkeypatch.setattr(ledger, "erase", away)
    await count(ledger, "a")
    with pytest.raises(Unavailable, match="away"):
        await erase(ledger, announcer)


async def test_what_is_written_to_all_the_time_is_refused_in_the_end(
    client: Client, ledger: SqliteLedger, announcer: Announcer, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[str] = []

    async def overtaken(*arguments: Any) -> None:
        tries.append("once more")

    monkeypatch.setattr(announcer, "flush", overtaken)
    await count(ledger, "a")
    with pytest.raises(Unavailable, match="written to all the time"):
        await erase(ledger, announcer)
    assert len(tries) == erasing.TRIES
