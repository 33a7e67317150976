"""A feed that is delivered again from its beginning does not change the index."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from nats.aio.client import Client

from hivemem_contracts.errors import Unavailable
from hivemem_contracts.streams import CHANGES
from hivemem_runtime.bus.feed.reading import FeedReading
from hivemem_runtime.bus.jetstream import ask
from hivemem_testing.servers import packaged_nats
from hivemem_testing.waiting import eventually
from hivemem_vectors.pipeline.entities import FOLLOWED, ITEM

from .bench import NAMESPACE
from .fleet import Fleet, Tenant, running

pytestmark = pytest.mark.asyncio(loop_scope="module")

CONSUMERS = ("vectors-memories", "vectors-sessions")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fleet(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Fleet]:
    folder = tmp_path_factory.mktemp("told-again")
    with packaged_nats(folder / "bus") as server:
        async with running(server, folder) as fleet:
            yield fleet


async def deliver_all_again(client: Client) -> None:
    """Remove the consumers, so that the workers declare them again from the feed's beginning."""
    for name in CONSUMERS:
        await ask(client, f"CONSUMER.DELETE.{CHANGES}.{name}")
    await nothing_waits(client)


async def nothing_waits(client: Client) -> None:
    feed = FeedReading(client)

    async def settled() -> bool:
        try:
            return sum([await feed.waiting(name) for name in CONSUMERS]) == 0
        except Unavailable:
            return False

    await eventually(settled, "every change is acknowledged")


async def versions(tenant: Tenant) -> dict[str, int]:
    """Return the versions of the ledger's keys, in which any write would show."""
    items = await tenant.items()
    heads = await tenant.fleet.ledger.heads(ITEM, tenant.name, list(items))
    followed = await tenant.fleet.ledger.heads(FOLLOWED, tenant.name, ["s1", "s2"])
    return {id: head.version for id, head in heads.items()} | {id: head.version for id, head in followed.items()}


async def test_the_whole_feed_again_changes_nothing_and_embeds_nothing(fleet: Fleet) -> None:
    tenant = fleet.tenant()
    for version in range(3):
        for key in ("a", "b", "c", "d"):
            await tenant.memory.put(key, f"text {key} {version}")
    await tenant.memory.put("large", "a long word " * 10_000)
    await tenant.memory.ask("delete", namespace=NAMESPACE, key="b")
    await tenant.memory.ask("erase", namespace=NAMESPACE, key="c")
    await tenant.memory.ask("erase", namespace=NAMESPACE, key="d")
    await tenant.memory.put("d", "a new life")
    for session_id in ("s1", "s2"):
        await tenant.sessions.begin(session_id, metadata={"index_events": True})
        await tenant.sessions.say(session_id, "e1", f"hello from {session_id}")
    await tenant.sessions.ask("delete", session_id="s2")
    expected = {"a": 3, "b": None, "c": None, "d": 5, "large": 1}

    async def all_indexed() -> bool:
        found = {id: item.indexed for id, item in (await tenant.items()).items()}
        return sum(version is not None for version in found.values()) == 4 and len(found) >= len(expected) + 1

    await eventually(all_indexed, "the index has everything")
    await nothing_waits(fleet.client)
    before, embedded = await versions(tenant), list(fleet.bench.embedder.embedded)
    points = set(await fleet.bench.points(tenant.name))
    await deliver_all_again(fleet.client)
    assert await versions(tenant) == before
    assert fleet.bench.embedder.embedded == embedded
    assert set(await fleet.bench.points(tenant.name)) == points
