"""Timers delete expired memories, finish interrupted work and drop records after their retention."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hivemem_contracts.errors import Unavailable
from hivemem_contracts.identifiers import format_time
from hivemem_memory.decisions.expiry import expire_memory
from hivemem_memory.endpoints import erasures
from hivemem_memory.endpoints.erasures import Eraser
from hivemem_memory.entities.answers import ANSWER
from hivemem_memory.entities.memories import MEMORY
from hivemem_memory.reactions import upkeep
from hivemem_memory.reactions.upkeep import Upkeep
from hivemem_runtime.ledger.places import place_of

from .chains import chain_is_current
from .hive import NAMESPACE, Agent, eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")


def soon(seconds: float = 1.0) -> str:
    return format_time(datetime.now(UTC) + timedelta(seconds=seconds))


async def told_of(bot: Agent, operation: str, count: int) -> None:
    async def told() -> bool:
        return [what for what, _ in await bot.told("memory.>")].count(f"memory.{operation}") >= count

    await eventually(told, f"{count} are {operation}")


async def test_what_has_expired_is_deleted_by_the_clock(bot: Agent) -> None:
    await bot.put("a", 1, expires_at=soon())
    await bot.put("b", 1, expires_at=soon(3_600))
    await told_of(bot, "deleted", 1)
    put, expired = await bot.versions("a")
    assert (expired["operation"], expired["updated_by"], expired["request_id"]) == ("expire", "hivemem", None)
    assert (expired["deleted"], expired["updated_at"] >= put["expires_at"]) == (True, True)
    assert await bot.keys() == ["b"]
    await chain_is_current(bot)
    page = await bot.ask("audit", operation="deleted")
    assert [(link["actor"], link["to_version"]) for link in page["items"]] == [("hivemem", 2)]
    assert (await bot.ask("audit_verify"))["ok"]


async def test_many_expire_at_once(bot: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "AT_ONCE", 7)
    at = soon()
    puts: list[Any] = [{"namespace": NAMESPACE, "key": f"k{n}", "value": 1, "expires_at": at} for n in range(30)]
    await bot.ask("put_batch", puts=puts)
    await told_of(bot, "deleted", 30)
    assert await bot.keys() == []


async def test_any_number_of_clocks_make_one_version(bot: Agent) -> None:
    await bot.put("a", 1, expires_at=soon())
    clocks = [Upkeep(bot.ledger, Eraser(bot.ledger, bot.worker._parts.announcer), 60) for _ in range(4)]  # pyright: ignore[reportPrivateUsage]  # what it announces with

    async def expired() -> bool:
        await asyncio.gather(*(each.expire(bot.tenant) for each in clocks))
        return len(await bot.versions("a")) > 1

    await eventually(expired, "it is deleted")
    assert [version["operation"] for version in await bot.versions("a")] == ["put", "expire"]


async def test_what_was_prolonged_or_deleted_in_between_is_left_alone(bot: Agent) -> None:
    place = place_of(NAMESPACE, "a")
    await bot.put("a", 1, expires_at=soon(3_600))
    head = await bot.ledger.head(MEMORY, bot.tenant, place)
    assert head is not None
    assert head.value is not None
    expires_at = head.value.expires_at or 0
    assert expire_memory(lambda entity, id: head, place, expires_at - 1) == []  # type: ignore[arg-type]  # one head is enough
    assert len(expire_memory(lambda entity, id: head, place, expires_at)) == 1  # type: ignore[arg-type]  # as above
    await bot.delete("a")
    head = await bot.ledger.head(MEMORY, bot.tenant, place)
    assert expire_memory(lambda entity, id: head, place, expires_at) == []  # type: ignore[arg-type]  # as above
    assert expire_memory(lambda entity, id: None, place, expires_at) == []


async def test_a_tenant_that_fails_keeps_no_other_waiting(bot: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    covered = bot.ledger.covered
    failed = asyncio.Event()
    errors = [Unavailable("away", retry_after_ms=1), ValueError("odd")]

    async def fail(entity: Any, tenant: str, index: str, **options: Any) -> Any:
        if tenant == bot.tenant and index == "expiry":
            if errors:
                raise errors.pop()
            failed.set()
        return await covered(entity, tenant, index, **options)

    monkeypatch.setattr(bot.ledger, "covered", fail)
    other = Agent(bot.client, bot.worker, f"{bot.tenant}-other")
    await bot.put("a", 1)
    await other.put("a", 1, expires_at=soon())
    await told_of(other, "deleted", 1)
    await failed.wait()


async def test_a_store_that_cannot_be_looked_at_is_looked_at_again(bot: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    tenants = bot.ledger.tenants
    errors = [Unavailable("away", retry_after_ms=1), ValueError("odd")]

    async def fail(entity: Any) -> Any:
        if errors:
            raise errors.pop()
        return await tenants(entity)

    await bot.put("a", 1, expires_at=soon())
    monkeypatch.setattr(bot.ledger, "tenants", fail)
    await told_of(bot, "deleted", 1)
    assert errors == []


async def test_an_erasure_that_somebody_left_is_gone_on_with(bot: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(erasures, "PATIENCE_SECONDS", 0.05)
    carry_out, left = Eraser._carry_out, list[str]()  # pyright: ignore[reportPrivateUsage]  # it is left right there

    def leave(eraser: Eraser, tenant: str, receipt: str, latest: int | None) -> None:
        if tenant == bot.tenant and not left:
            left.append(receipt)
        else:
            carry_out(eraser, tenant, receipt, latest)

    monkeypatch.setattr(Eraser, "_carry_out", leave)
    await bot.put("a", 1)
    receipt = await bot.ask("erase", namespace=NAMESPACE)
    assert (receipt["status"], receipt["entries"]) == ("running", 0)
    monkeypatch.setattr(erasures, "ABANDONED_MICROSECONDS", 100_000)
    await told_of(bot, "erased", 1)

    async def done() -> bool:
        return bool((await bot.ask("erasure", receipt=receipt["receipt"]))["status"] == "done")

    await eventually(done, "the erasure is done")


async def test_answers_are_forgotten_when_their_request_cannot_come_again(bot: Agent) -> None:
    await bot.ask("put_batch", puts=[{"namespace": NAMESPACE, "key": "a", "value": 1}])
    eraser = Eraser(bot.ledger, bot.worker._parts.announcer)  # pyright: ignore[reportPrivateUsage]  # as above

    async def answers() -> int:
        return await bot.ledger.count(ANSWER, bot.tenant, "age", equals={})

    assert await answers() == 1
    await Upkeep(bot.ledger, eraser, 60).forget(bot.tenant)
    assert await answers() == 1
    await Upkeep(bot.ledger, eraser, 0).forget(bot.tenant)
    assert await answers() == 0
    assert (await bot.memory("a"))["value"] == 1
