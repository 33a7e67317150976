"""A connection reads any message, is replaced when one of its tasks ends, and survives server outages."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import nats.errors
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from hivemem_contracts.errors import Unavailable
from hivemem_runtime.bus import connection
from hivemem_runtime.bus.connection import connect, on_reconnect, trouble
from hivemem_runtime.bus.delivery import ignored, parse_delivery
from hivemem_runtime.bus.subscriptions import subscribe
from hivemem_runtime.bus.wire import plain_frame, send
from hivemem_testing.ports import free_port
from hivemem_testing.process import ProcessServer
from hivemem_testing.raw_nats import HEADER_BLOCKS, RawNats
from hivemem_testing.servers import packaged_nats

from .waiting import eventually

SUBJECTS = (b"odd.\xff\xfe", b"odd.a\x0b1", b"odd.\x0c", b"odd.\0", b"odd.\x85\xa0", b"odd.caf\xc3\xa9")
REPLIES = (b"", b"_INBOX.\xff", b"_INBOX.a\x0b1", b"\x0c", b"1")


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[ProcessServer]:
    """A server that the test may pause and kill."""
    with packaged_nats(tmp_path / "nats") as server:
        yield server


@pytest.fixture
async def own_client(own_server: ProcessServer) -> AsyncIterator[Client]:
    client = await connect(own_server.url, "tests")
    yield client
    await client.close()


@pytest.fixture
async def raw(bus_server: ProcessServer) -> AsyncIterator[RawNats]:
    raw = await RawNats.connect(bus_server.url)
    yield raw
    await raw.close()


async def test_no_message_ends_the_read_loop(bare_client: Client, raw: RawNats) -> None:
    taken: list[Msg] = []

    async def take(message: Msg) -> None:
        taken.append(message)

    await subscribe(bare_client, "odd.>", take)
    await bare_client.flush()
    chosen = random.Random(1)
    blocks = [*HEADER_BLOCKS, *(chosen.randbytes(chosen.randrange(1, 40)) for _ in range(300))]
    for block in blocks:
        await raw.publish(b"odd.block", block, b"{}", chosen.choice(REPLIES))
    for subject in SUBJECTS:
        for reply in REPLIES:
            await raw.publish(subject, None, b"PING\r\n", reply)
    sent = len(blocks) + len(SUBJECTS) * len(REPLIES)
    await eventually(lambda: len(taken) == sent, "all of them are handed over")
    assert {message.subject for message in taken[len(blocks) :]} == {
        "odd.\\xff\\xfe",
        "odd.a\x0b1",
        "odd.\x0c",
        "odd.\0",
        "odd.\\x85\\xa0",
        "odd.café",
    }
    assert (trouble(bare_client), bare_client.stats["reconnects"]) == (None, 0)


@pytest.mark.parametrize("loop", ["_reading_task", "_flusher_task", "_ping_interval_task"])
async def test_a_connection_whose_loop_has_ended_is_made_anew(bus_server: ProcessServer, loop: str) -> None:
    client = await connect(bus_server.url, "tests")
    again, taken = asyncio.Event(), asyncio.Event()
    on_reconnect(client, again.set)

    async def take(message: Msg) -> None:
        taken.set()

    await subscribe(client, "anew", take)
    task: asyncio.Task[None] = getattr(client, loop)
    task.cancel()
    await asyncio.wait((task,))
    assert "loop has ended" in (trouble(client) or "")
    async with asyncio.timeout(20):
        await again.wait()
        assert trouble(client) is None
        await client.publish("anew", b"")
        await taken.wait()
    await client.close()
    assert trouble(client) == "the connection is closed for good"


async def test_reconnecting_that_ended_begins_again(own_server: ProcessServer, own_client: Client) -> None:
    own_server.kill()
    await eventually(lambda: own_client.is_reconnecting, "it is away")
    assert "not connected" in (trouble(own_client) or "")
    reconnecting = own_client._reconnection_task  # pyright: ignore[reportPrivateUsage]  # nobody else can end it
    assert reconnecting is not None
    reconnecting.cancel()
    own_server.start()
    await eventually(lambda: trouble(own_client) is None, "it is there again")


async def test_an_error_of_the_server_closes_nothing_for_good(bus_server: ProcessServer) -> None:
    client = await connect(bus_server.url, "tests")
    again = asyncio.Event()
    on_reconnect(client, again.set)
    await send(client, [b"PUB far.too.large 99999999\r\n"])
    async with asyncio.timeout(20):
        await again.wait()
    await client.flush()
    assert trouble(client) is None
    await client.close()


async def test_an_answer_to_a_ping_that_nobody_waits_for_harms_nothing(
    own_server: ProcessServer, own_client: Client
) -> None:
    own_server.pause()
    with pytest.raises(nats.errors.TimeoutError):
        await own_client.flush(timeout=0.1)  # type: ignore[arg-type]  # any number of seconds
    own_server.resume()
    await own_client.flush()
    assert (trouble(own_client), own_client.stats["reconnects"]) == (None, 0)


@pytest.mark.parametrize("error", [ValueError("a fault"), asyncio.CancelledError()])
async def test_a_handler_that_raises_gets_the_next_message(bare_client: Client, error: BaseException) -> None:
    taken: list[bytes] = []

    async def take(message: Msg) -> None:
        taken.append(message.data)
        if len(taken) == 1:
            raise error

    await subscribe(bare_client, "handled", take)
    for body in (b"1", b"2"):
        await bare_client.publish("handled", body)
    await eventually(lambda: taken == [b"1", b"2"], "both came")


@pytest.mark.parametrize(
    "reply", ["", "_INBOX.a", "a.b.c.d.e.f.g.h.i", "$JS.ACK.S.c.1.2.3.4.x", "$JS.ACK", "$JS.ACK.1.2.3"]
)
def test_what_no_stream_delivered_is_ignored_and_counted(bare_client: Client, reply: str) -> None:
    before = ignored["tests"]
    assert parse_delivery(Msg(bare_client, "a", reply, b"{}", None), "tests") is None
    assert ignored["tests"] == before + 1


@pytest.mark.parametrize("reply", ["$JS.ACK.S.c.1.2.3.4.5", "$JS.ACK.d.account.S.c.1.2.3.4.5.random"])
def test_where_a_delivery_stands_is_read_from_its_reply(bare_client: Client, reply: str) -> None:
    found = parse_delivery(Msg(bare_client, "a", reply, b"{}", None), "tests")
    assert found is not None
    assert (found.deliveries, found.sequence, found.delivery, found.stored_at, found.pending) == (1, 2, 3, 4, 5)


@pytest.mark.parametrize("place", [0, 1])
async def test_a_server_that_is_away_among_good_ones_costs_nothing(bus_server: ProcessServer, place: int) -> None:
    servers = [bus_server.url]
    servers.insert(place, f"nats://127.0.0.1:{free_port()}")
    async with asyncio.timeout(5):
        client = await connect(",".join([*servers, "nats://nobody.invalid:4222"]), "tests", timeout_seconds=20)
    assert trouble(client) is None
    await client.close()


async def test_a_client_goes_over_to_another_server_of_its_list(bus_server: ProcessServer, tmp_path: Path) -> None:
    with packaged_nats(tmp_path) as leaving:
        client = await connect(f"{leaving.url},{bus_server.url}", "tests", dont_randomize=True)
        assert client.connected_url is not None
        assert client.connected_url.netloc in leaving.url
        leaving.kill()
        await eventually(lambda: client.stats["reconnects"] == 1, "it is at the other one")
        assert trouble(client) is None
        await client.close()


@pytest.mark.parametrize(("sends", "size"), [(0, 0), (1, 8 * 1024 * 1024), (2_000, 8 * 1024)])
async def test_a_client_leaves_a_server_that_stands_still(
    bus_server: ProcessServer, own_server: ProcessServer, monkeypatch: pytest.MonkeyPatch, sends: int, size: int
) -> None:
    monkeypatch.setattr(connection, "PING_INTERVAL_SECONDS", 0.3)
    client = await connect(f"{own_server.url},{bus_server.url}", "tests", dont_randomize=True)
    again = asyncio.Event()
    on_reconnect(client, again.set)
    own_server.pause()
    frames = [plain_frame("a", bytes(1_000))] * (size // 1_000)
    sending = [asyncio.create_task(send(client, frames)) for _ in range(sends)]
    async with asyncio.timeout(20):
        await again.wait()
    assert trouble(client) is None
    assert client.connected_url is not None
    assert client.connected_url.netloc in bus_server.url
    await asyncio.gather(*sending)
    own_server.resume()
    await client.close()


async def test_no_server_at_all_is_told_in_time_and_without_passwords() -> None:
    away = f"nats://me:secret@127.0.0.1:{free_port()},nats://127.0.0.1:{free_port()}"
    async with asyncio.timeout(20):
        with pytest.raises(Unavailable) as raised:
            await connect(away, "tests", timeout_seconds=0.3)
    assert away.replace("me:secret@", "") in str(raised.value)
    assert "secret" not in str(raised.value)
