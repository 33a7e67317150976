"""The queue of waiting requests in a worker: what it reads for them, also during new requests and after an outage."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from hivemem_contracts.errors import Overloaded
from hivemem_memory.endpoints.lease_queues import LeaseAddress, LeaseQueues, QueuedRequest
from hivemem_runtime.bus import connection
from hivemem_runtime.clock import now_microseconds
from hivemem_runtime.ledger.port import Head
from hivemem_testing.servers import packaged_nats

from .hive import Agent, eventually
from .leasing import ROME, WAIT_MS, Place, waiting_in

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_who_comes_while_an_older_lease_is_being_read_waits_on(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The head read for one waiting request is older than the second request, so it must not affect that one."""
    token = (await place.acquire())["token"]
    ledger, head, joined = place.agent.ledger, place.agent.ledger.head, asyncio.Event()

    async def delayed(*key: Any) -> Head[Any] | None:
        found: Head[Any] | None = await head(*key)
        if key[1] == place.agent.tenant:
            await joined.wait()
        return found

    monkeypatch.setattr(ledger, "head", delayed)
    here = waiting_in(place.agent.worker)
    before = here.waiting
    first = place.waits("first")
    await eventually(lambda: here.waiting == before + 1, "the first waits")
    second = place.waits("second")
    await eventually(lambda: here.waiting == before + 2, "the second waits")
    joined.set()
    await place.release(token)
    for number, turn in enumerate((first, second), start=1):
        assert (await turn)["token"] == token + number
        await Place(place.agent.called(("first", "second")[number - 1])).release(token + number)


async def test_a_worker_that_was_away_looks_for_itself_once_it_is_back(place: Place, tmp_path: Path) -> None:
    """This worker gets no announcements, because it uses another bus; but that bus is restarted."""
    ledger = place.agent.ledger
    token = (await place.acquire())["token"]
    other = place.waits()
    await place.waited_for_by(1)
    ticket = (await place.lease()).waiters[0][0]
    with packaged_nats(tmp_path) as bus:
        client = await connection.connect(bus.url, "away")
        waiting = LeaseQueues(ledger, 10)
        await waiting.start(client)
        there = LeaseAddress.of(place.agent.tenant, ROME, None)
        turn = QueuedRequest(ticket, "waiter", "cause", 2, now_microseconds() + WAIT_MS * 1_000)
        granted = asyncio.create_task(waiting.until_granted(there, turn))
        await eventually(lambda: waiting.waiting == 1, "it waits")
        await place.release(token)
        assert (await other)["token"] == token + 1
        assert not granted.done()
        bus.stop()
        bus.start()
        lease = await granted
        assert lease is not None
        assert lease.token == token + 1
        await waiting.stop()
        await client.close()


async def test_so_many_may_wait_at_one_worker_and_no_more(bot: Agent) -> None:
    with pytest.raises(Overloaded) as refused:
        LeaseQueues(bot.ledger, 0).require_room("acme")
    assert refused.value.context == {"limit": 0, "retry_after_ms": 250}
