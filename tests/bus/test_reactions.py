"""Reactions get the feed in batches; a change that cannot be handled goes to DEAD and does not stop the others."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import orjson
import pytest
from nats.aio.client import Client

from hivemem_contracts.errors import CODE_HEADER, NotFound, Unavailable
from hivemem_contracts.streams import CHANGES, DEAD, DEAD_MESSAGE_ID, DEAD_SUBJECT, FEED_EPOCH, SIGNATURE
from hivemem_runtime.bus.dead_letters import DeadLetter, DeadLetters
from hivemem_runtime.bus.feed import pull as feed_pull
from hivemem_runtime.bus.feed.fleet_key import fleet_key, signature
from hivemem_runtime.bus.jetstream import ask
from hivemem_runtime.bus.reactions import consumers as reactions
from hivemem_runtime.bus.reactions import runner as reacting
from hivemem_runtime.bus.reactions.consumers import Reactions
from hivemem_runtime.bus.reactions.runner import Reaction, ReceivedChange
from hivemem_testing.process import ProcessServer

from .recorder import Recorder, Workers
from .stored import change, messages_in, publish
from .waiting import eventually

FILTERS = ("hive.chg.*.item.>",)


@pytest.fixture
async def workers(client: Client, bus_server: ProcessServer) -> AsyncIterator[Workers]:
    started = Workers(bus_server.url)
    yield started
    await started.stop_all()


async def acknowledged(client: Client, durable: str = "items-index") -> None:
    async def settled() -> bool:
        info = await ask(client, f"CONSUMER.INFO.{CHANGES}.{durable}")
        return int(info["num_pending"]) + int(info["num_ack_pending"]) == 0

    await eventually(settled, "every change is acknowledged")


async def test_changes_come_in_batches_in_feed_order_with_their_place(client: Client, workers: Workers) -> None:
    for version in range(1, 201):
        await change(client, "a", version)
    recorder = Recorder()
    received: list[ReceivedChange] = []

    async def handle(batch: Sequence[ReceivedChange]) -> None:
        received.extend(batch)
        await recorder(batch)

    worker = await workers.start(Reaction("index", FILTERS, handle, batch=100))
    await acknowledged(client)
    assert recorder.handled == [("a", version) for version in range(1, 201)]
    assert max(recorder.batches) > 20
    assert [each.sequence for each in received] == list(range(1, 201))
    assert received[0].subject == "hive.chg.acme.item.a"
    assert received[0].headers["ce-type"] == "hivemem.item.added"
    assert worker.status()["index"]["handled"] == 200


async def test_a_reaction_gets_what_its_filters_match_and_goes_on_where_it_was(
    client: Client, workers: Workers
) -> None:
    recorder = Recorder()
    reaction = Reaction("index", ("hive.chg.acme.item.a", "hive.chg.acme.item.c"), recorder)
    for item in ("a", "b", "c"):
        await change(client, item, 1)
    worker = await workers.start(reaction)
    await acknowledged(client)
    await workers.stop(worker)
    await change(client, "a", 2)
    await workers.start(reaction)
    await acknowledged(client)
    assert recorder.handled == [("a", 1), ("c", 1), ("a", 2)]


async def test_two_reactions_each_get_everything(client: Client, workers: Workers) -> None:
    one, other = Recorder(), Recorder()
    await workers.start(Reaction("index", FILTERS, one), Reaction("audit", FILTERS, other))
    await change(client, "a", 1)
    await acknowledged(client, "items-index")
    await acknowledged(client, "items-audit")
    assert one.handled == other.handled == [("a", 1)]


async def test_workers_share_a_reaction(client: Client, workers: Workers) -> None:
    one, other = Recorder(), Recorder()
    await workers.start(Reaction("index", FILTERS, one, batch=5))
    await workers.start(Reaction("index", FILTERS, other, batch=5))
    for version in range(1, 101):
        await change(client, "a", version)
    await acknowledged(client)
    assert sorted(one.handled + other.handled) == [("a", version) for version in range(1, 101)]


async def test_a_store_that_is_down_for_a_while_loses_nothing_and_keeps_the_order(
    client: Client, workers: Workers
) -> None:
    recorder = Recorder()
    down = [Unavailable("down")] * 3
    recorder.fail = lambda received: down.pop() if down else None
    for version in range(1, 21):
        await change(client, "a", version)
    await workers.start(Reaction("index", FILTERS, recorder))
    await acknowledged(client)
    assert recorder.handled == [("a", version) for version in range(1, 21)]
    assert await messages_in(client, DEAD) == []


async def test_a_poisonous_change_goes_to_dead_and_the_others_are_handled(client: Client, workers: Workers) -> None:
    recorder = Recorder()
    recorder.fail = lambda received: RuntimeError("a secret") if received.change.version == 3 else None
    for version in range(1, 6):
        await change(client, "a", version)
    worker = await workers.start(Reaction("index", FILTERS, recorder))
    await acknowledged(client)
    assert recorder.handled == [("a", version) for version in (1, 2, 4, 5)]
    (letter,) = await messages_in(client, DEAD)
    assert letter.subject == "hive.dead.acme.bot.items.reaction-index"
    assert letter.headers[CODE_HEADER] == "50001"
    assert letter.headers[DEAD_SUBJECT] == "hive.chg.acme.item.a"
    assert letter.headers[DEAD_MESSAGE_ID] == "item:acme:a:3"
    assert orjson.loads(letter.data)["version"] == 3
    assert "secret" not in str(letter.headers)
    assert worker.status()["index"]["given_up"] == 1


async def test_an_error_that_is_not_retryable_is_final_at_once(client: Client, workers: Workers) -> None:
    recorder = Recorder()
    recorder.fail = lambda received: NotFound("gone") if received.change.version == 1 else None
    await change(client, "a", 1)
    await change(client, "a", 2)
    await workers.start(Reaction("index", FILTERS, recorder))
    await acknowledged(client)
    assert recorder.handled == [("a", 2)]
    assert recorder.calls == 3
    (letter,) = await messages_in(client, DEAD)
    assert letter.headers[CODE_HEADER] == "40401"


async def test_what_no_worker_wrote_is_passed_over(client: Client, workers: Workers) -> None:
    recorder = Recorder()
    await change(client, "a", 1)
    (told,) = await messages_in(client, CHANGES)
    forged = told.data.replace(b'"version":1', b'"version":7')
    await publish(client, told.subject, forged, told.headers)
    await publish(client, told.subject, b"", {"ce-id": "x:y"})
    await publish(client, told.subject, forged)
    await change(client, "a", 2)
    worker = await workers.start(Reaction("index", FILTERS, recorder))
    await acknowledged(client)
    assert recorder.handled == [("a", 1), ("a", 2)]
    assert await messages_in(client, DEAD) == []
    assert worker.status()["index"]["foreign"] == 3


async def test_a_feed_in_another_epoch_is_read_from_its_start(client: Client, workers: Workers) -> None:
    """The consumer's position may be past sequences that the new epoch reuses."""
    recorder = Recorder()
    await change(client, "a", 1)
    worker = await workers.start(Reaction("index", FILTERS, recorder))
    await acknowledged(client)
    await workers.stop(worker)
    config = (await ask(client, f"STREAM.INFO.{CHANGES}"))["config"]
    await ask(client, f"STREAM.UPDATE.{CHANGES}", config | {"metadata": {FEED_EPOCH: "2-later"}})
    await change(client, "a", 2)
    await workers.start(Reaction("index", FILTERS, recorder))
    await acknowledged(client)
    assert recorder.handled == [("a", 1), ("a", 1), ("a", 2)]


async def test_what_is_no_change_goes_to_dead(client: Client, workers: Workers) -> None:
    recorder = Recorder()
    subject = "hive.chg.acme.item.a"
    signed = signature(await fleet_key(client), "", subject, "x:1", b"not a change")
    await publish(client, subject, b"not a change", {"ce-id": "x:1", SIGNATURE: signed})
    await change(client, "a", 1)
    await workers.start(Reaction("index", FILTERS, recorder))
    await acknowledged(client)
    assert recorder.handled == [("a", 1)]
    (letter,) = await messages_in(client, DEAD)
    assert (letter.subject, letter.data) == ("hive.dead.unknown.unknown.items.reaction-index", b"not a change")


async def test_a_stop_finishes_the_batch_at_hand(client: Client, workers: Workers) -> None:
    recorder = Recorder()
    recorder.gate.clear()
    await change(client, "a", 1)
    worker = await workers.start(Reaction("index", FILTERS, recorder))
    await eventually(lambda: recorder.calls == 1, "the batch is being handled")
    stopping = asyncio.create_task(workers.stop(worker))
    await asyncio.sleep(0)
    recorder.gate.set()
    await stopping
    assert recorder.handled == [("a", 1)]
    await acknowledged(client)


async def test_what_fails_when_the_worker_stops_is_another_worker_s_at_once(client: Client, workers: Workers) -> None:
    failing, other = Recorder(), Recorder()
    failing.fail = lambda received: Unavailable("down")
    for version in (1, 2, 3):
        await change(client, "a", version)
    worker = await workers.start(Reaction("index", FILTERS, failing))
    await eventually(lambda: failing.calls >= 2, "it was tried again")
    await workers.stop(worker)
    await workers.start(Reaction("index", FILTERS, other))
    await eventually(lambda: len(other.handled) == 3, "the other one has them", deadline_seconds=5)


async def test_what_goes_one_batch_at_a_time_has_no_more_out(client: Client, workers: Workers) -> None:
    """The consumer of an older worker is updated to one batch at a time."""
    worker = await workers.start(Reaction("index", FILTERS, Recorder(), batch=10))
    assert await out_at_once(client) == 40
    await workers.stop(worker)
    for version in range(1, 31):
        await change(client, "a", version)
    one, other = Recorder(), Recorder()
    one.gate.clear()
    other.gate.clear()
    await workers.start(Reaction("index", FILTERS, one, batch=10, one_batch=True))
    await workers.start(Reaction("index", FILTERS, other, batch=10, one_batch=True))
    assert await out_at_once(client) == 10
    await eventually(lambda: one.calls + other.calls == 1, "a batch is being handled")
    info = await ask(client, f"CONSUMER.INFO.{CHANGES}.items-index")
    assert (info["num_ack_pending"], info["num_pending"]) == (10, 20)
    one.gate.set()
    other.gate.set()
    await acknowledged(client)
    assert sorted(one.handled + other.handled) == [("a", version) for version in range(1, 31)]


async def test_what_others_have_out_holds_up_no_batch(
    client: Client, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server silently withholds messages beyond the limit of unacknowledged ones."""
    monkeypatch.setattr(feed_pull, "ANSWER_SECONDS", 60.0)
    slow, other = Recorder(), Recorder()
    slow.gate.clear()
    for version in (1, 2, 3):
        await change(client, "a", version)
    await workers.start(Reaction("index", FILTERS, slow, batch=4, one_batch=True))
    await eventually(lambda: slow.calls == 1, "a batch is being handled")
    for version in (4, 5, 6):
        await change(client, "a", version)
    await workers.start(Reaction("index", FILTERS, other, batch=4, one_batch=True))
    await eventually(lambda: other.handled[:1] == [("a", 4)], "the other one has what may be out")
    slow.gate.set()
    await acknowledged(client)
    assert sorted(slow.handled + other.handled) == [("a", version) for version in range(1, 7)]


async def out_at_once(client: Client) -> int:
    return int((await ask(client, f"CONSUMER.INFO.{CHANGES}.items-index"))["config"]["max_ack_pending"])


async def test_what_may_gather_comes_in_fewer_batches(client: Client, workers: Workers) -> None:
    recorder = Recorder()
    await workers.start(Reaction("index", FILTERS, recorder, gather_seconds=0.3))
    for version in range(1, 41):
        await change(client, "a", version)
    await acknowledged(client)
    assert recorder.handled == [("a", version) for version in range(1, 41)]
    assert len(recorder.batches) < 5


async def test_nothing_gathers_while_the_worker_stops(client: Client, workers: Workers) -> None:
    recorder = Recorder()
    worker = await workers.start(Reaction("index", FILTERS, recorder, gather_seconds=60))
    await change(client, "a", 1)
    await acknowledged(client)
    async with asyncio.timeout(5):
        await workers.stop(worker)


async def test_a_change_says_how_many_were_handed_out_before(client: Client, workers: Workers) -> None:
    received: list[ReceivedChange] = []

    async def handle(batch: Sequence[ReceivedChange]) -> None:
        received.extend(batch)

    for item in ("a", "b", "c"):
        await change(client, item, 1)
    await workers.start(Reaction("index", ("hive.chg.acme.item.a", "hive.chg.acme.item.c"), handle))
    await acknowledged(client)
    assert [(each.sequence, each.delivery) for each in received] == [(1, 1), (3, 2)]


async def test_a_batch_that_takes_longer_than_the_acknowledgement_may_is_not_given_to_another(
    client: Client, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reactions, "ACK_WAIT_SECONDS", 0.5)
    slow, other = Recorder(), Recorder()
    slow.gate.clear()
    await change(client, "a", 1)
    await workers.start(Reaction("index", FILTERS, slow))
    await eventually(lambda: slow.calls == 1, "the batch is being handled")
    await workers.start(Reaction("index", FILTERS, other))
    await change(client, "b", 1)
    with pytest.raises(AssertionError, match="never"):
        await eventually(lambda: ("a", 1) in other.handled, "the other one gets it too", deadline_seconds=1.5)
    slow.gate.set()
    await acknowledged(client)
    assert slow.handled[0] == ("a", 1)


async def test_a_change_that_no_worker_survives_is_given_up_untried(
    client: Client, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reacting, "CRASHES", 2)
    monkeypatch.setattr(reacting, "ATTEMPTS", 1)
    recorder = Recorder()
    reaction = Reaction("index", FILTERS, recorder)
    await change(client, "a", 1)
    await change(client, "a", 2)
    idle = await workers.start(reaction)
    await acknowledged(client)
    await workers.stop(idle)
    recorder.handled.clear()
    for version in (3, 4):
        await change(client, "a", version)
    jetstream = client.jetstream()  # pyright: ignore[reportUnknownMemberType]  # untyped keyword options
    dying = await jetstream.pull_subscribe_bind("items-index", CHANGES)
    for _ in range(2):
        for message in await dying.fetch(2, timeout=2):
            await message.nak()
    await workers.start(reaction)
    await acknowledged(client)
    assert recorder.handled == [("a", 4)]
    (letter,) = await messages_in(client, DEAD)
    assert orjson.loads(letter.data)["version"] == 3


async def test_a_consumer_that_is_gone_is_made_again(
    client: Client, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reactions, "UPKEEP_SECONDS", 0.1)
    recorder = Recorder()
    worker = await workers.start(Reaction("index", FILTERS, recorder))
    await eventually(lambda: worker.status()["index"]["lag"] == 0, "the lag is known")
    await ask(client, f"CONSUMER.DELETE.{CHANGES}.items-index")
    await change(client, "a", 1)
    await eventually(lambda: recorder.handled == [("a", 1)], "it is handled")


async def test_a_reaction_has_its_name_alone(bus_server: ProcessServer) -> None:
    worker = Reactions(bus_server.url, "items")
    worker.add(Reaction("index", FILTERS, Recorder()))
    with pytest.raises(ValueError, match="index is added twice"):
        worker.add(Reaction("index", FILTERS, Recorder()))


async def test_a_start_without_a_feed_is_refused(bare_client: Client, bus_server: ProcessServer) -> None:
    worker = Reactions(bus_server.url, "items")
    worker.add(Reaction("index", FILTERS, Recorder()))
    with pytest.raises(Exception, match="stream not found"):
        await worker.start()


async def test_a_dead_letter_is_not_lost_while_dead_is_away(client: Client) -> None:
    dead = DeadLetters(client)
    await ask(client, f"STREAM.DELETE.{DEAD}")
    letter = DeadLetter("hive.dead.a.b.c.d", b"", NotFound("x" * 20_000), "hive.in.a.b.c.d.e", "1", "id")
    with pytest.raises(Unavailable):
        await dead.publish(letter)
    assert dead.published == 0
