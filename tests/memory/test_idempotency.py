"""One idempotency key means one command, for each operation that writes."""

import asyncio

import pytest

from hivemem_contracts.memory.operations import MEMORY as CONTRACT
from hivemem_testing.idempotency import check_one_command, writes_of

from .hive import NAMESPACE, Agent, Body
from .leasing import LONG_MS, ROME

pytestmark = pytest.mark.asyncio(loop_scope="session")

A: Body = {"namespace": NAMESPACE, "key": "a"}
B: Body = {"namespace": NAMESPACE, "key": "b"}


async def two_memories(bot: Agent) -> tuple[Body, Body]:
    await bot.put("a", {"n": 1})
    await bot.put("b", {"n": 1})
    return A, B


async def put(bot: Agent) -> tuple[Body, Body]:
    return {**A, "value": {"x": 1, "y": [{"z": 1, "w": 2}]}}, {**A, "value": {"x": 1, "y": [{"z": 1, "w": 3}]}}


async def patch(bot: Agent) -> tuple[Body, Body]:
    await two_memories(bot)
    return {**A, "patch": {"n": 2}}, {**A, "patch": {"n": 3}}


async def put_batch(bot: Agent) -> tuple[Body, Body]:
    return {"puts": [{**A, "value": 1}, {**B, "value": 1}]}, {"puts": [{**A, "value": 1}, {**B, "value": 2}]}


async def delete_batch(bot: Agent) -> tuple[Body, Body]:
    await two_memories(bot)
    return {"deletes": [A]}, {"deletes": [B]}


async def restore(bot: Agent) -> tuple[Body, Body]:
    await two_memories(bot)
    await bot.put("a", {"n": 2})
    return {**A, "version": 1}, {**A, "version": 2}


async def fork(bot: Agent) -> tuple[Body, Body]:
    await two_memories(bot)
    return {"namespace": NAMESPACE, "into": "project:one"}, {"namespace": NAMESPACE, "into": "project:two"}


async def lease(bot: Agent) -> tuple[Body, Body]:
    return {"namespace": ROME, "ttl_ms": LONG_MS}, {"namespace": ROME, "key": "k", "ttl_ms": LONG_MS}


async def leased(bot: Agent) -> tuple[Body, Body]:
    bodies: list[Body] = []
    for place in ({"namespace": ROME}, {"namespace": ROME, "key": "k"}):
        granted = await bot.ask("lease", place, ttl_ms=LONG_MS)
        bodies.append({**place, "token": granted["token"]})
    return bodies[0], bodies[1]


async def erase_confirm(bot: Agent) -> tuple[Body, Body]:
    await two_memories(bot)
    receipt = (await bot.ask("erase", A))["receipt"]
    return {"receipt": receipt, "worker": "w", "removed": 1}, {"receipt": receipt, "worker": "w", "removed": 2}


async def import_(bot: Agent) -> tuple[Body, Body]:
    return {"items": [{**A, "value": 1}]}, {"items": [{**A, "value": 1}, {**B, "value": 2}]}


CASES = {
    "put": put,
    "patch": patch,
    "put_batch": put_batch,
    "delete": two_memories,
    "delete_batch": delete_batch,
    "restore": restore,
    "fork": fork,
    "lease": lease,
    "renew": leased,
    "release": leased,
    "erase": two_memories,
    "erase_confirm": erase_confirm,
    "import": import_,
}


async def test_each_operation_that_writes_has_a_case() -> None:
    assert list(CASES) == writes_of(CONTRACT)


@pytest.mark.parametrize("operation", CASES)
async def test_one_id_is_one_command(bot: Agent, operation: str) -> None:
    await check_one_command(bot, operation, CASES[operation])


async def test_what_takes_a_field_away_is_not_what_leaves_it(bot: Agent) -> None:
    await bot.ask("put", {**A, "value": 1, "importance": 0.5})
    await bot.ask("put", {**A, "value": 2}, id="m1")

    assert (await bot.refusal("put", {**A, "value": 2, "importance": None}, id="m1")).code == 40906
    assert (await bot.ask("get", A))["importance"] == 0.5


async def test_a_batch_of_which_nothing_was_done_does_not_take_its_id(bot: Agent) -> None:
    refused = {"puts": [{**A, "value": 1, "expect_version": 7}]}
    await bot.ask("put_batch", refused, id="m1")

    done = await bot.ask("put_batch", {"puts": [{**A, "value": 1}]}, id="m1")
    assert done["results"][0]["version"] == 1
    assert (await bot.refusal("put_batch", refused, id="m1")).code == 40906


async def test_two_commands_of_one_id_at_once_are_not_both_done(bot: Agent) -> None:
    asked = [bot.ask("put", {**A, "value": number}, id="m1") for number in range(5)]

    answers = await asyncio.gather(*asked, return_exceptions=True)

    assert sum(not isinstance(answer, BaseException) for answer in answers) == 1
    assert (await bot.ask("get", A))["version"] == 1
