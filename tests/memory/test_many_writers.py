"""Concurrent writers over one or several workers on one store: no write is lost or repeated."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
import pytest_asyncio

from hivemem_memory.worker import build
from hivemem_runtime.worker import Worker

from .conftest import Deployment
from .hive import Agent, Body, Refused

pytestmark = pytest.mark.asyncio(loop_scope="session")

WRITERS = 50


@pytest_asyncio.fixture(loop_scope="session")
async def second_worker(deployment: Deployment) -> AsyncIterator[Worker]:
    """A second worker on the same store; requests go to either."""
    worker = build(deployment.settings)
    await worker.start()
    yield worker
    await worker.stop()


async def patched_by_all(bot: Agent) -> None:
    await bot.put("k", {})

    async def write(number: int) -> None:
        agent = bot.called(f"agent-{number}")
        for turn in range(4):
            await agent.patch("k", {f"a{number}": turn, f"t{turn}-{number}": True})

    await asyncio.gather(*map(write, range(WRITERS)))
    value = (await bot.memory("k"))["value"]
    assert value == {
        **{f"a{number}": 3 for number in range(WRITERS)},
        **{f"t{turn}-{number}": True for number in range(WRITERS) for turn in range(4)},
    }
    versions = await bot.versions("k")
    assert [version["version"] for version in versions] == list(range(1, 4 * WRITERS + 2))
    assert Counter(version["updated_by"] for version in versions[1:]) == {
        f"agent-{number}": 4 for number in range(WRITERS)
    }
    told = await bot.feed_of(4 * WRITERS + 1)
    assert [change.body["version"] for change in told] == list(range(1, 4 * WRITERS + 2))


async def counted_by_all(bot: Agent) -> None:
    """Each writer increments the value that it read, on condition that it has not changed."""
    await bot.put("n", 0)

    async def count(number: int) -> None:
        agent = bot.called(f"agent-{number}")
        while True:
            memory = await agent.memory("n")
            with suppress(Refused):
                await agent.put("n", memory["value"] + 1, expect_version=memory["version"])
                return

    await asyncio.gather(*map(count, range(20)))
    memory = await bot.memory("n")
    assert (memory["value"], memory["version"]) == (20, 21)


async def repeated_by_all(bot: Agent) -> None:
    """Every write is sent three times under its id."""
    answers: list[Body] = await asyncio.gather(
        *(bot.put("k", n, id=bot.id(f"m{n}")) for _ in range(3) for n in range(WRITERS))
    )
    assert sorted(answer["version"] for answer in answers if not answer["duplicate"]) == list(range(1, WRITERS + 1))
    assert Counter(answer["version"] for answer in answers) == dict.fromkeys(range(1, WRITERS + 1), 3)


async def test_every_patch_of_fifty_writers_is_counted(bot: Agent) -> None:
    await patched_by_all(bot)


async def test_every_increment_is_counted(bot: Agent) -> None:
    await counted_by_all(bot)


async def test_every_write_that_is_sent_again_is_done_once(bot: Agent) -> None:
    await repeated_by_all(bot)


@pytest.mark.usefixtures("second_worker")
async def test_every_patch_is_counted_by_two_workers_on_one_store(bot: Agent) -> None:
    await patched_by_all(bot)


@pytest.mark.usefixtures("second_worker")
async def test_every_increment_is_counted_by_two_workers_on_one_store(bot: Agent) -> None:
    await counted_by_all(bot)


@pytest.mark.usefixtures("second_worker")
async def test_every_write_that_is_sent_again_is_done_once_by_two_workers_on_one_store(bot: Agent) -> None:
    await repeated_by_all(bot)


@pytest.mark.usefixtures("second_worker")
async def test_two_batches_of_one_id_are_done_once_by_two_workers_on_one_store(bot: Agent) -> None:
    puts = [{"namespace": "user:alice", "key": f"k{n % 25}", "value": n} for n in range(50)]
    answers = await asyncio.gather(*(bot.ask("put_batch", puts=puts, id=bot.id("m1")) for _ in range(6)))
    results = [result for answer in answers for result in answer["results"]]
    assert sum(not result["duplicate"] for result in results) == 50
    assert {(await bot.memory(f"k{n}"))["version"] for n in range(25)} == {2}
