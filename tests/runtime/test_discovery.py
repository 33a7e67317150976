"""Workers answer the services protocol of NATS, and it cannot make them publish elsewhere."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import nats.errors
import orjson
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.micro.service import ServiceInfo, ServicePing, ServiceStats

from hivemem_runtime.bus.jetstream import ask
from hivemem_runtime.bus.requests import discovery
from hivemem_runtime.bus.requests.discovery import Discovery, Endpoint
from hivemem_runtime.bus.subscriptions import subscribe

from .things import eventually

SUBJECT = "hive.req.*.*.things.echo"


class Asked:
    """Counts the calls of the health function, one per answer to STATS."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> dict[str, Any]:
        self.times += 1
        return {"ready": True}


@pytest.fixture
def endpoint() -> Endpoint:
    return Endpoint("echo", SUBJECT, "things", {"summary": "Echo."})


@pytest.fixture
def health() -> Asked:
    return Asked()


@pytest.fixture
async def found(client: Client, endpoint: Endpoint, health: Callable[[], dict[str, Any]]) -> AsyncIterator[Discovery]:
    found = Discovery(
        client, name="things", version="1.2.3", description="Things.", endpoints=[endpoint], health=health
    )
    await found.start()
    await client.flush()
    yield found
    await found.stop()


async def told(caller: Client, subject: str) -> dict[str, Any]:
    answer: dict[str, Any] = orjson.loads((await caller.request(subject, timeout=10)).data)
    return answer


async def test_the_ecosystems_own_types_read_the_answers(found: Discovery, caller: Client) -> None:
    ping = await told(caller, "$SRV.PING")
    assert ping["type"] == "io.nats.micro.v1.ping_response"
    known = ServicePing.from_dict(ping)
    assert (known.name, known.version, known.metadata) == ("things", "1.2.3", {"product": "hivemem"})
    for subject in ("$SRV.INFO", "$SRV.INFO.things", f"$SRV.INFO.things.{known.id}"):
        info = ServiceInfo.from_dict(await told(caller, subject))
        assert (info.id, info.type, info.description) == (known.id, "io.nats.micro.v1.info_response", "Things.")
        assert [vars(each) for each in info.endpoints] == [
            {"name": "echo", "subject": SUBJECT, "queue_group": "things", "metadata": {"summary": "Echo."}}
        ]
    stats = await told(caller, "$SRV.STATS.things")
    assert stats["type"] == "io.nats.micro.v1.stats_response"
    assert ServiceStats.from_dict(stats).endpoints[0].name == "echo"


async def test_figures_are_true(found: Discovery, caller: Client, endpoint: Endpoint) -> None:
    endpoint.requests, endpoint.errors, endpoint.seconds, endpoint.last_error = 4, 1, 0.5, "40401:NotFound"
    stats = ServiceStats.from_dict(await told(caller, "$SRV.STATS")).endpoints[0]
    assert (stats.num_requests, stats.num_errors, stats.last_error) == (4, 1, "40401:NotFound")
    assert (stats.processing_time, stats.average_processing_time) == (500_000_000, 125_000_000)
    assert stats.data == {"completed": 4, "errors": 1, "average_ms": 125.0, "health": {"ready": True}}


@pytest.mark.parametrize("verb", ["PING", "INFO", "STATS"])
async def test_nothing_but_an_inbox_is_answered(found: Discovery, client: Client, caller: Client, verb: str) -> None:
    elsewhere = await subscribe(caller, "elsewhere.>")
    for reply in ("hive.chg.acme.thing.t", "hive.in.acme.other.things.count.t", "hive.dead.x", "elsewhere.x"):
        await caller.publish(f"$SRV.{verb}", b"", reply=reply)
    assert (await told(caller, f"$SRV.{verb}"))["name"] == "things"
    await caller.flush()
    assert elsewhere.pending_msgs == 0
    for stream in ("CHANGES", "INGEST", "DEAD"):
        assert (await ask(client, f"STREAM.INFO.{stream}"))["state"]["messages"] == 0


async def test_a_burst_costs_a_few_answers(
    found: Discovery, caller: Client, health: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discovery, "PAUSE_SECONDS", 0.5)
    answered: list[str] = []

    async def take(message: Msg) -> None:
        answered.append(message.subject)

    await subscribe(caller, "_INBOX.burst.*", take)
    for number in range(2_000):
        await caller.publish("$SRV.STATS", b"", reply=f"_INBOX.burst.{number}")
    await caller.flush()
    await eventually(lambda: len(answered) > discovery.WAITING // 4, "some of them are answered")

    async def answered_again() -> bool:
        try:
            return bool((await caller.request("$SRV.STATS", timeout=0.5)).data)
        except nats.errors.TimeoutError:
            return False

    await eventually(answered_again, "who asks later is answered")
    assert health.times < 100
    assert len(answered) < 2_000


async def test_whoever_asked_before_the_end_is_answered(found: Discovery, caller: Client) -> None:
    asking = asyncio.create_task(told(caller, "$SRV.PING"))
    await caller.flush()
    await found.stop()
    assert (await asking)["name"] == "things"
