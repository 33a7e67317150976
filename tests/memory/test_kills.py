"""When a worker is killed in the middle of a task, another one finishes it, without repetition or omission."""

import asyncio
import functools
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from hivemem_memory.endpoints import erasures
from hivemem_memory.entities.memories import receipt_id
from hivemem_memory.worker import MemorySettings, build
from hivemem_runtime.worker import Worker
from hivemem_testing.contract import Address
from hivemem_testing.ports import LOOPBACK, free_port
from hivemem_testing.process import ProcessServer, Program
from hivemem_testing.readiness import http_answers
from hivemem_testing.servers import packaged_nats
from hivemem_testing.stores import STORES

from .chains import chain_is_current
from .changes import delete
from .hive import Agent, Body, Refused, connect, eventually

pytestmark = pytest.mark.slow

KEYS = 500
SESSION = "session:s1"
AT_ONCE = 250


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[ProcessServer]:
    with packaged_nats(tmp_path / "nats") as server:
        yield server


@pytest.fixture(params=STORES)
def settings(request: pytest.FixtureRequest, bus: ProcessServer) -> Iterator[dict[str, Any]]:
    stores = STORES[request.param](request, "killed")
    yield {"nats_url": bus.url, **next(stores)}
    assert next(stores, None) is None


@pytest.fixture
def victim(settings: dict[str, Any], tmp_path: Path) -> Iterator[ProcessServer]:
    """A worker that runs as a process of its own."""
    port = free_port()
    directory = tmp_path / "victim"
    directory.mkdir()
    program = Program(
        name="victim",
        version="",
        command=(sys.executable, "-m", "hivemem_memory"),
        port=port,
        ready=functools.partial(http_answers, LOOPBACK, port, "/readyz"),
        environment={
            "HIVEMEM_HTTP_PORT": str(port),
            **{f"HIVEMEM_{name.upper()}": str(value) for name, value in settings.items()},
        },
    )
    with ProcessServer(program, Address(f"http://{LOOPBACK}:{port}"), directory) as server:
        yield server


@pytest.fixture
async def heir(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Worker]:
    """The worker that finishes the task, once it is started."""
    monkeypatch.setattr(erasures, "ABANDONED_MICROSECONDS", 300_000)
    worker = build(MemorySettings(**settings))
    yield worker
    await worker.stop()


@pytest.fixture
async def bot(bus: ProcessServer, heir: Worker) -> AsyncIterator[Agent]:
    client = await connect(bus.url)
    yield Agent(client, heir, "tenant")
    await client.close()


async def remember(bot: Agent, namespace: str) -> None:
    for start in range(0, KEYS, AT_ONCE):
        puts = [{"namespace": namespace, "key": f"k{number}", "value": 1} for number in range(start, start + AT_ONCE)]
        await bot.ask("put_batch", puts=puts)


async def entries(bot: Agent, receipt: str) -> int:
    """Return how many memories an erasure has counted so far."""
    try:
        return int((await bot.ask("erasure", receipt=receipt))["entries"])
    except Refused:
        return 0


async def killed_in_the_middle(bot: Agent, victim: ProcessServer, receipt: str) -> None:
    async def begun() -> bool:
        return await entries(bot, receipt) > 0

    await eventually(begun, "the erasure has begun")
    assert await entries(bot, receipt) < KEYS
    victim.kill()


async def finished(bot: Agent, receipt: str) -> Body:
    found: Body = {}

    async def done() -> bool:
        found.update(await bot.ask("erasure", receipt=receipt))
        return bool(found["status"] == "done")

    await eventually(done, "the erasure is done")
    return found


async def every_key_once(bot: Agent) -> None:
    """Check that the chain has each key put once and erased once, and the feed has only the erasures, each once."""
    assert (await bot.ask("count", prefix="session", include_deleted=True))["count"] == 0

    told = Counter((each.what, each.body["key"]) for each in await bot.feed("memory.>"))
    assert set(told.values()) == {1}
    assert {what for what, _ in told} == {"memory.erased"}
    assert len(told) == KEYS
    await chain_is_current(bot)
    links = await bot.pages("audit", limit=1_000)
    assert Counter((link["operation"], link["key"]) for link in links) == {
        (operation, key): 1 for _, key in told for operation in ("put", "erased")
    }
    cursor: str | None = None
    while True:
        found = await bot.ask("audit_verify", {"cursor": cursor} if cursor else {})
        assert found["ok"], found
        cursor = found["cursor"]
        if cursor is None:
            return


async def test_an_erasure_is_finished_by_another_worker(victim: ProcessServer, heir: Worker, bot: Agent) -> None:
    await remember(bot, SESSION)
    asking = asyncio.create_task(bot.ask("erase", namespace=SESSION, id="e1"))
    receipt = receipt_id(bot.tenant, "bot", "e1")
    await killed_in_the_middle(bot, victim, receipt)
    asking.cancel()
    await heir.start()
    found = await finished(bot, receipt)
    assert (found["entries"], found["versions"]) == (KEYS, KEYS)
    assert [(each["worker"], each["removed"]) for each in found["confirmed"]] == [("memory", KEYS), ("feed", KEYS)]
    await every_key_once(bot)


async def test_the_end_of_a_session_is_finished_by_another_worker(
    victim: ProcessServer, heir: Worker, bot: Agent
) -> None:
    await remember(bot, SESSION)
    await delete(bot.client, bot.tenant, "s1", actor="owner", cause="m1")
    receipt = receipt_id(bot.tenant, "owner", "m1")
    await killed_in_the_middle(bot, victim, receipt)
    await heir.start()
    found = await finished(bot, receipt)
    assert (found["entries"], found["versions"]) == (KEYS, KEYS)
    await every_key_once(bot)
