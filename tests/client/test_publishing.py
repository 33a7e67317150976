"""Durable commands are stored when the receipt arrives, once, and in order per route."""

import asyncio

import orjson
import pytest

import hivemem
from hivemem_contracts.streams import COMMAND_ID, INGEST
from hivemem_testing.process import ProcessServer

from .fleet import Fleet, eventually

NOTE = hivemem.NewEvent(type="note")


def note(number: int) -> hivemem.NewEvent:
    return hivemem.NewEvent(type="note", content=number)


async def test_a_published_command_is_in_the_stream_when_the_receipt_is_there(hive: hivemem.Hive, fleet: Fleet) -> None:
    receipt = await hive.publish(hive.sessions.append, session_id="a.b", event=NOTE, state_delta={"k": None})

    assert await fleet.stored(INGEST) == [
        (
            "hive.in.acme.bot.sessions.append.a%2Eb",
            {"session_id": "a.b", "event": {"type": "note"}, "state_delta": {"k": None}},
        )
    ]
    assert (receipt.route, receipt.sequence) == ("a.b", 1)


async def test_the_receipt_names_the_message_id_that_was_sent(hive: hivemem.Hive, fleet: Fleet) -> None:
    receipt = await hive.publish(hive.sessions.append, session_id="s1", event=NOTE)

    message = await fleet.client.request(f"$JS.API.DIRECT.GET.{INGEST}", orjson.dumps({"seq": receipt.sequence}))
    assert (message.headers or {})[COMMAND_ID] == receipt.message_id


async def test_by_name_it_takes_a_mapping_or_a_body(hive: hivemem.Hive, fleet: Fleet) -> None:
    await hive.publish("sessions.append", {"session_id": "s1", "event": {"type": "note"}}, route="s1")
    await hive.publish("sessions.append", hivemem.AppendEvent(session_id="s1", event=NOTE))

    first, second = await fleet.stored(INGEST)
    assert first == second


async def test_a_create_without_an_id_learns_it_from_the_receipt(hive: hivemem.Hive, fleet: Fleet) -> None:
    receipt = await hive.publish(hive.sessions.create, app_name="demo", user_id="alice")

    ((subject, body),) = await fleet.stored(INGEST)
    assert subject == f"hive.in.acme.bot.sessions.create.{receipt.route}"
    assert "session_id" not in body


async def test_what_has_no_route_may_be_given_one(hive: hivemem.Hive, fleet: Fleet) -> None:
    batch = {"appends": [{"session_id": "s1", "event": {"type": "note"}}]}
    await hive.publish("sessions.append_batch", batch, route="mine")
    receipt = await hive.publish("sessions.append_batch", batch)

    subjects = [subject for subject, _ in await fleet.stored(INGEST)]
    assert subjects[0].endswith(".append_batch.mine")
    assert subjects[1].endswith(f".append_batch.{receipt.message_id}")


async def test_the_bus_drops_nothing_by_its_id(hive: hivemem.Hive, fleet: Fleet) -> None:
    """The worker decides which commands are duplicates, because the bus knows neither the operation nor the agent."""
    once = hive.with_options(message_id="m1")
    first = await once.publish(hive.sessions.append, session_id="s1", event=NOTE)
    second = await hive.publish(once.sessions.append, session_id="s1", event=NOTE)
    third = await hive.publish("sessions.append", {"session_id": "s1", "event": {"type": "note"}}, message_id="m1")

    other = await once.publish(hive.sessions.terminate, session_id="s1")
    assert [first.sequence, second.sequence, third.sequence, other.sequence] == [1, 2, 3, 4]


async def test_a_create_published_again_names_the_same_session(hive: hivemem.Hive) -> None:
    once = hive.with_options(message_id="m1")
    first, second = [await once.publish(hive.sessions.create, app_name="demo", user_id="alice") for _ in range(2)]
    other = await hive.publish(hive.sessions.create, app_name="demo", user_id="alice")

    assert first.route == second.route != other.route


@pytest.mark.parametrize(
    ("operation", "body"),
    [("sessions.get", {"session_id": "s1"}), ("memory.lease", {"namespace": "user:alice", "ttl_ms": 1_000})],
)
async def test_what_is_all_about_its_answer_cannot_be_published(
    hive: hivemem.Hive, operation: str, body: dict[str, object]
) -> None:
    with pytest.raises(hivemem.InvalidRequest, match="can only be requested"):
        await hive.publish(operation, body)


async def test_a_route_that_is_not_that_of_the_body_is_refused(hive: hivemem.Hive) -> None:
    with pytest.raises(hivemem.InvalidRequest, match="s2"):
        await hive.publish("sessions.append", {"session_id": "s1", "event": {"type": "note"}}, route="s2")


async def test_without_the_stream_it_is_unavailable(hive: hivemem.Hive, fleet: Fleet) -> None:
    await fleet.api(f"STREAM.DELETE.{INGEST}")

    with pytest.raises(hivemem.Unavailable, match=r"publishing sessions\.append"):
        await hive.with_options(timeout_seconds=0.3).publish(hive.sessions.append, session_id="s1", event=NOTE)


async def test_a_full_stream_holds_the_publisher_until_there_is_room(hive: hivemem.Hive, fleet: Fleet) -> None:
    await fleet.make_streams(max_msgs=1, discard="new")
    await hive.publish(hive.sessions.append, session_id="s1", event=note(1))
    with pytest.raises(hivemem.Overloaded, match="maximum messages"):
        await hive.with_options(timeout_seconds=0.3).publish(hive.sessions.append, session_id="s1", event=note(2))

    waiting = asyncio.create_task(hive.publish(hive.sessions.append, session_id="s1", event=note(3)))
    await fleet.api(f"STREAM.PURGE.{INGEST}")

    assert (await waiting).sequence == 2


async def test_a_command_larger_than_the_stream_takes_is_too_large(hive: hivemem.Hive, fleet: Fleet) -> None:
    await fleet.make_streams(max_msg_size=1000)

    with pytest.raises(hivemem.TooLarge):
        await hive.publish(hive.sessions.append, session_id="s1", event=hivemem.NewEvent(type="n", content="x" * 2000))


async def test_a_pipeline_keeps_the_order_of_each_route(hive: hivemem.Hive, fleet: Fleet) -> None:
    async with hive.pipeline(max_pending=16) as pipe:
        receipts = [
            await pipe.publish(hive.sessions.append, session_id=f"s{number % 3}", event=note(number))
            for number in range(120)
        ]

    stored = await fleet.stored(INGEST)
    assert len(stored) == 120
    for route in range(3):
        numbers = [body["event"]["content"] for _, body in stored if body["session_id"] == f"s{route}"]
        assert numbers == sorted(numbers)
    assert {receipt.result().route for receipt in receipts} == {"s0", "s1", "s2"}


async def test_a_full_pipeline_holds_its_publisher(hive: hivemem.Hive, fleet: Fleet) -> None:
    await fleet.make_streams(max_msgs=2, discard="new")
    async with hive.pipeline(max_pending=2) as pipe:
        for number in range(4):
            await pipe.publish(hive.sessions.append, session_id=f"s{number}", event=note(number))
        held = asyncio.create_task(pipe.publish(hive.sessions.append, session_id="s4", event=note(4)))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(held), 0.2)
        await fleet.api(f"STREAM.PURGE.{INGEST}")
        await held
        await eventually(lambda: fleet_is_full(fleet), "two more are stored")
        await fleet.api(f"STREAM.PURGE.{INGEST}")


async def fleet_is_full(fleet: Fleet) -> bool:
    return int((await fleet.api(f"STREAM.INFO.{INGEST}"))["state"]["messages"]) == 2


async def test_a_failure_surfaces_at_the_flush_and_stops_its_route(hive: hivemem.Hive, fleet: Fleet) -> None:
    await fleet.make_streams(max_msg_size=1000)
    large = hivemem.NewEvent(type="note", content="x" * 2000)
    pipe = hive.pipeline()
    bad = await pipe.publish(hive.sessions.append, session_id="s1", event=large)
    after = await pipe.publish(hive.sessions.append, session_id="s1", event=note(2))
    other = await pipe.publish(hive.sessions.append, session_id="s2", event=note(3))

    with pytest.raises(hivemem.TooLarge):
        await pipe.flush()

    assert isinstance(bad.exception(), hivemem.TooLarge)
    assert "earlier command of route 's1'" in str(after.exception())
    assert other.result().route == "s2"
    again = await pipe.publish(hive.sessions.append, session_id="s1", event=note(4))
    await pipe.flush()
    assert again.result().route == "s1"


async def test_a_block_that_raises_is_not_held_up_by_its_pipeline(hive: hivemem.Hive, fleet: Fleet) -> None:
    await fleet.api(f"STREAM.DELETE.{INGEST}")

    receipts: list[asyncio.Future[hivemem.Receipt]] = []

    async def fail() -> None:
        async with hive.pipeline() as pipe:
            receipts.append(await pipe.publish(hive.sessions.append, session_id="s1", event=NOTE))
            raise KeyError("mine")

    with pytest.raises(KeyError):
        await fail()

    assert receipts[0].cancelled()


async def test_a_pipeline_has_no_room_for_one_message_id(hive: hivemem.Hive) -> None:
    with pytest.raises(hivemem.InvalidRequest, match="message_id"):
        hive.with_options(message_id="m1").pipeline()
    with pytest.raises(ValueError, match="max_pending"):
        hive.pipeline(max_pending=0)


async def test_a_killed_server_costs_no_command_and_no_order(
    own_server: ProcessServer, own_fleet: Fleet, own_hive: hivemem.Hive
) -> None:
    published = 0

    async def publish_all() -> None:
        nonlocal published
        async with own_hive.pipeline(max_pending=32) as pipe:
            for number in range(1500):
                await pipe.publish(own_hive.sessions.append, session_id=f"s{number % 7}", event=note(number))
                published += 1

    task = asyncio.create_task(publish_all())
    for mark in (300, 800):
        await eventually(lambda mark=mark: published > mark or task.done(), "commands go on")
        await asyncio.to_thread(own_server.kill)
        await asyncio.to_thread(own_server.start)
    await task

    # A batch whose acknowledgement was lost is stored twice; the worker uses the first copy.
    first = dict.fromkeys(body["event"]["content"] for _, body in await own_fleet.stored(INGEST))
    assert sorted(first) == list(range(1500))
    for route in range(7):
        numbers = [number for number in first if number % 7 == route]
        assert numbers == sorted(numbers)


async def batches(fleet: Fleet) -> list[list[int]]:
    """Return the contents of the stream, grouped by the batch in which they were published."""
    found: dict[str, list[int]] = {}
    for sequence, (_, body) in enumerate(await fleet.stored(INGEST), 1):
        message = await fleet.client.request(f"$JS.API.DIRECT.GET.{INGEST}", orjson.dumps({"seq": sequence}))
        batch = (message.headers or {}).get("Nats-Batch-Id", f"alone-{sequence}")
        found.setdefault(batch, []).append(body["event"]["content"])
    return list(found.values())


async def test_sixteen_that_wait_are_one_batch(hive: hivemem.Hive, fleet: Fleet) -> None:
    pipe = hive.pipeline()
    receipts = [await pipe.publish(hive.sessions.append, session_id=f"s{n % 3}", event=note(n)) for n in range(16)]
    await pipe.flush()

    assert await batches(fleet) == [list(range(16))]
    assert [receipt.result().sequence for receipt in receipts] == list(range(1, 17))
    assert len({receipt.result().message_id for receipt in receipts}) == 16
    few = [await pipe.publish(hive.sessions.append, session_id="s", event=note(n)) for n in range(15)]
    await pipe.flush()
    assert (await batches(fleet))[1:] == [[n] for n in range(15)]
    assert [receipt.result().sequence for receipt in few] == list(range(17, 32))


async def test_a_batch_that_finds_no_room_is_refused_as_a_whole(hive: hivemem.Hive, fleet: Fleet) -> None:
    await fleet.make_streams(max_msgs=21, discard="new")
    impatient = hive.with_options(timeout_seconds=0.3)
    pipe = impatient.pipeline()
    first = [await pipe.publish(hive.sessions.append, session_id="s1", event=note(n)) for n in range(16)]
    await pipe.flush()
    second = [await pipe.publish(hive.sessions.append, session_id=f"s{n}", event=note(n)) for n in range(16)]
    with pytest.raises(hivemem.Overloaded) as refused:
        await pipe.flush()

    assert refused.value.__notes__ == ["commands of 15 more routes failed"]
    assert [receipt.result().sequence for receipt in first] == list(range(1, 17))
    assert all(isinstance(receipt.exception(), hivemem.Overloaded) for receipt in second)
    assert len(await fleet.stored(INGEST)) == 16
    again = [await pipe.publish(hive.sessions.append, session_id="s1", event=note(n)) for n in range(5)]
    await pipe.flush()
    assert [receipt.result().sequence for receipt in again] == list(range(17, 22))


async def test_one_command_at_fault_does_not_take_its_batch_along(hive: hivemem.Hive, fleet: Fleet) -> None:
    await fleet.make_streams(max_msg_size=1_000)
    events = [note(n) for n in range(20)]
    events[5] = hivemem.NewEvent(type="note", content="x" * 2_000)
    pipe = hive.pipeline()
    receipts = [
        await pipe.publish(hive.sessions.append, session_id=f"s{n % 2}", event=event) for n, event in enumerate(events)
    ]
    with pytest.raises(hivemem.TooLarge):
        await pipe.flush()

    failed = [number for number, receipt in enumerate(receipts) if receipt.exception() is not None]
    assert failed == list(range(5, 20, 2)), "it, and what came behind it on its route"
    assert isinstance(receipts[5].exception(), hivemem.TooLarge)


async def test_a_stream_that_takes_no_batches_gets_them_one_by_one(hive: hivemem.Hive, fleet: Fleet) -> None:
    await fleet.make_streams(allow_atomic=False)
    async with hive.pipeline() as pipe:
        for number in range(50):
            await pipe.publish(hive.sessions.append, session_id=f"s{number % 5}", event=note(number))

    stored = [body["event"]["content"] for _, body in await fleet.stored(INGEST)]
    assert sorted(stored) == list(range(50))
    for route in range(5):
        numbers = [number for number in stored if number % 5 == route]
        assert numbers == sorted(numbers)
