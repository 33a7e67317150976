"""Equal bytes are stored once and collected when no file refers to them, and a concurrent save never loses them."""

import asyncio
import random
from hashlib import sha256
from typing import Any

import pytest

from hivemem_artifacts.entities.blobs import BLOB
from hivemem_artifacts.ports import BlobStore

from .conftest import Deployment
from .hive import Agent, Refused

pytestmark = pytest.mark.asyncio(loop_scope="session")

DATA = b"bytes that come and go"
DIGEST = sha256(DATA).hexdigest()


async def blobs_of(store: BlobStore, bot: Agent) -> list[str]:
    return sorted([stored.blob async for stored in store.blobs() if stored.tenant == bot.tenant])


async def delete(bot: Agent, name: str) -> None:
    await bot.ask("delete", session_id="s1", name=name)


async def test_the_same_bytes_are_stored_once(bot: Agent, deployment: Deployment) -> None:
    await bot.save("a", DATA)
    await bot.save("a", DATA)
    await bot.save("b", DATA)
    await bot.save("b", DATA, session_id="s2")
    upload = await bot.begin("c")
    await bot.chunk(upload, 0, DATA)
    await bot.ask("commit", upload_id=upload["upload_id"])
    assert await blobs_of(deployment.store, bot) == [DIGEST]
    head = await bot.ledger.head(BLOB, bot.tenant, DIGEST)
    assert head is not None
    assert head.value is not None
    assert head.value.refs == 5


async def test_the_grace_time_spares_and_a_dry_run_removes_nothing(bot: Agent, deployment: Deployment) -> None:
    await bot.save("a", DATA)
    await delete(bot, "a")
    kept = {"dry_run": False, "removed": 0, "bytes": 0, "kept": 1, "done": True}
    assert await bot.ask("gc") == kept
    assert await bot.ask("gc", grace_seconds=3_600) == kept
    would = {"dry_run": True, "removed": 1, "bytes": len(DATA), "kept": 0, "done": True}
    assert await bot.ask("gc", dry_run=True, grace_seconds=0) == would
    assert await blobs_of(deployment.store, bot) == [DIGEST]
    assert await bot.ask("gc", grace_seconds=0) == {**would, "dry_run": False}
    assert await blobs_of(deployment.store, bot) == []
    assert (await bot.ask("gc", grace_seconds=0))["removed"] == 0


async def test_bytes_that_were_collected_live_again(bot: Agent, deployment: Deployment) -> None:
    for turn in range(3):
        await bot.save("a", DATA)
        assert await bot.content("a") == DATA, turn
        await delete(bot, "a")
        assert (await bot.ask("gc", grace_seconds=0))["removed"] == 1
    await bot.save("a", DATA)
    found = await blobs_of(deployment.store, bot)
    assert len(found) == 1
    assert found[0].startswith(DIGEST + "-")
    assert await bot.content("a") == DATA


async def test_bytes_that_nobody_noted_are_collected(bot: Agent, deployment: Deployment) -> None:
    await deployment.store.put(bot.tenant, DIGEST, DATA)
    assert (await bot.ask("gc"))["kept"] == 1
    assert (await bot.ask("gc", dry_run=True, grace_seconds=0))["removed"] == 1
    assert (await bot.ask("gc", grace_seconds=0))["removed"] == 1
    assert await blobs_of(deployment.store, bot) == []
    await bot.save("a", DATA)
    assert (await bot.ask("gc", grace_seconds=0))["removed"] == 0
    assert await bot.content("a") == DATA


class Gate:
    """Blocks the first call of a store method, before or after it runs, until the gate opens."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, store: BlobStore, method: str, *, behind: bool) -> None:
        self.reached, self.open = asyncio.Event(), asyncio.Event()
        done, calls = getattr(store, method), list[str]()

        async def gated(*arguments: Any, **options: Any) -> Any:
            calls.append(method)
            first = len(calls) == 1
            if first and not behind:
                await self._stand()
            result = await done(*arguments, **options)
            if first and behind:
                await self._stand()
            return result

        monkeypatch.setattr(store, method, gated)

    async def _stand(self) -> None:
        self.reached.set()
        await self.open.wait()


@pytest.mark.parametrize("behind", [False, True])
async def test_a_save_overtakes_a_collection_that_stands_still(
    bot: Agent, deployment: Deployment, monkeypatch: pytest.MonkeyPatch, behind: bool
) -> None:
    """The collector has recorded that it removes the bytes, and is about to remove them, or has just done so."""
    await bot.save("a", DATA)
    await delete(bot, "a")
    gate = Gate(monkeypatch, deployment.store, "delete", behind=behind)
    collecting = asyncio.create_task(bot.ask("gc", grace_seconds=0))
    await gate.reached.wait()
    await bot.save("b", DATA)
    assert await bot.content("b") == DATA
    gate.open.set()
    await collecting
    assert await bot.content("b") == DATA
    await bot.ask("gc", grace_seconds=0)
    assert await bot.content("b") == DATA
    assert len(await blobs_of(deployment.store, bot)) == 1


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("behind", [False, True])
async def test_a_collection_overtakes_a_save_that_stands_still(
    bot: Agent, deployment: Deployment, monkeypatch: pytest.MonkeyPatch, behind: bool, known: bool
) -> None:
    """The saver is about to put the bytes, or has just put them, and has committed nothing yet."""
    if known:
        await bot.save("a", DATA)
        await delete(bot, "a")
        await bot.ask("gc", grace_seconds=0)
    gate = Gate(monkeypatch, deployment.store, "put", behind=behind)
    saving = asyncio.create_task(bot.save("b", DATA))
    await gate.reached.wait()
    assert (await bot.ask("gc", grace_seconds=0))["removed"] == int(behind)
    gate.open.set()
    await saving
    assert await bot.content("b") == DATA
    assert (await bot.ask("gc", grace_seconds=0))["removed"] <= 1
    assert await bot.content("b") == DATA
    assert len(await blobs_of(deployment.store, bot)) == 1


async def test_a_save_of_bytes_that_were_there_a_moment_ago_puts_them_again(
    bot: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The blob is collected between the lookup and the commit that relies on it."""
    await bot.save("a", DATA)
    await delete(bot, "a")
    head, overtaken = bot.ledger.head, list[str]()

    async def look(entity: Any, tenant: str, id: str) -> Any:
        found = await head(entity, tenant, id)
        if entity is BLOB and tenant == bot.tenant and not overtaken:
            overtaken.append(id)
            await bot.ask("gc", grace_seconds=0)
        return found

    monkeypatch.setattr(bot.ledger, "head", look)
    await bot.save("b", DATA)
    assert overtaken
    assert await bot.content("b") == DATA


async def test_two_savers_of_new_bytes_share_them(
    bot: Agent, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch, deployment.store, "put", behind=True)
    slow = asyncio.create_task(bot.save("a", DATA))
    await gate.reached.wait()
    await bot.save("b", DATA)
    gate.open.set()
    await slow
    await delete(bot, "b")
    await bot.ask("gc", grace_seconds=0)
    assert await bot.content("a") == DATA
    assert await blobs_of(deployment.store, bot) == [DIGEST]


async def act(bot: Agent, chance: random.Random) -> None:
    """Do a dozen steps; concurrent steps of others may refuse any of them."""
    for _ in range(12):
        try:
            await step(bot, chance.randrange(5), f"f{chance.randrange(4)}", f"content {chance.randrange(3)}".encode())
        except Refused as refused:
            incomplete = refused.code == 40001 and "expected" in refused.context
            if not incomplete and refused.code not in (40401, 50301):
                raise


async def step(bot: Agent, which: int, name: str, data: bytes) -> None:
    match which:
        case 0 | 1:
            await bot.save(name, data)
        case 2:
            upload = await bot.begin(name, sha256=sha256(data).hexdigest())
            if not upload["stored"]:
                await bot.chunk(upload, 0, data)
            await bot.ask("commit", upload_id=upload["upload_id"])
        case 3:
            await delete(bot, name)
        case _:
            await bot.ask("gc", grace_seconds=0)


async def test_saves_deletions_and_collections_at_random_lose_nothing(bot: Agent, deployment: Deployment) -> None:
    """Few contents and few names make conflicts frequent."""
    chance = random.Random(7)
    await asyncio.gather(*(act(bot, random.Random(chance.randrange(2**32))) for _ in range(8)))
    left: set[bytes] = set()
    for item in await bot.pages("list"):
        for version in await bot.pages("versions", name=item["name"]):
            data = await bot.content(item["name"], version=version["version"])
            assert sha256(data).hexdigest() == version["sha256"]
            left.add(data)
    await bot.ask("gc", grace_seconds=0)
    assert len(await blobs_of(deployment.store, bot)) == len(left)
    for item in await bot.pages("list"):
        assert await bot.content(item["name"]) in left


async def test_a_long_collection_says_that_there_is_more(bot: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(3):
        await bot.save(f"{n}", f"{n}".encode())
        await delete(bot, f"{n}")
    monkeypatch.setattr("hivemem_artifacts.endpoints.garbage_collection.BUDGET_SECONDS", -1.0)
    found = await bot.ask("gc", grace_seconds=0)
    assert (found["removed"], found["done"]) == (0, False)
    monkeypatch.undo()
    found = await bot.ask("gc", grace_seconds=0)
    assert (found["removed"], found["done"]) == (3, True)
