"""Durable commands run the operations of a service, in order; a command that cannot succeed goes to DEAD."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from nats.aio.client import Client
from pydantic import TypeAdapter

from hivemem_contracts.errors import CODE_HEADER, TEXT_HEADER, InvalidRequest, LeaseHeld, Unavailable, error_from_body
from hivemem_contracts.identifiers import Time
from hivemem_contracts.streams import (
    DEAD,
    DEAD_AT,
    DEAD_BODY_OMITTED,
    DEAD_ERROR,
    DEAD_MESSAGE_ID,
    DEAD_SUBJECT,
    INGEST,
    MESSAGE_ID,
)
from hivemem_contracts.subjects import command_subject
from hivemem_runtime.bus.commands import execution as commands
from hivemem_runtime.bus.commands.execution import Commands
from hivemem_runtime.bus.commands.partitions import Partitions
from hivemem_runtime.bus.commands.pinned_consumer import PullSettings
from hivemem_runtime.bus.dead_letters import DeadLetter, DeadLetters
from hivemem_runtime.bus.delivery import DurableMessage
from hivemem_runtime.bus.jetstream import ask
from hivemem_runtime.service import Service

from .items import items_service, numbers_of, sqlite_ledger
from .memory_ledger import MemoryLedger
from .stored import Stored, command, count_in, messages_in, publish
from .waiting import eventually

Serve = Callable[[Service], AbstractAsyncContextManager[Partitions]]


@pytest.fixture
def serve(client: Client) -> Serve:
    @asynccontextmanager
    async def served(service: Service) -> AsyncGenerator[Partitions]:
        handle = Commands(service, DeadLetters(client)).handle
        partitions = Partitions(client, "items", handle, partitions=8, settings=PullSettings(batch=64))
        await partitions.start()
        yield partitions
        await partitions.stop()

    return served


async def drained(client: Client, serve: Serve, service: Service) -> None:
    """Serve until no command is left in the stream."""

    async def empty() -> bool:
        return await count_in(client, INGEST) == 0

    async with serve(service):
        await eventually(empty, "every command is settled")


def error_of(stored: Stored) -> Any:
    return error_from_body(orjson.loads(stored.headers[DEAD_ERROR]))


async def test_commands_are_committed_in_order_and_share_batches(client: Client, serve: Serve) -> None:
    for number in range(150):
        await command(client, "add", "a", number)
    ledger = MemoryLedger()
    await drained(client, serve, items_service(ledger.as_port()))
    assert ledger.numbers == list(range(150))
    assert len(ledger.batches) < 30
    first = ledger.added[0]
    assert (first.tenant, first.item, first.actor, first.cause) == ("acme", "a", "bot", "a-0")


async def test_the_same_command_twice_is_one_write(client: Client, serve: Serve, tmp_path: Path) -> None:
    ledger = sqlite_ledger(tmp_path / "ledger.db")
    await ledger.open()
    for _ in range(2):
        await command(client, "add", "a", 1)
        await drained(client, serve, items_service(ledger))
    assert await numbers_of(ledger, "a") == [1]
    await ledger.close()


async def test_without_a_message_id_a_redelivery_is_the_same_write(client: Client, serve: Serve) -> None:
    await command(client, "add", "a", 1, message_id=None)
    await command(client, "add", "a", 1, message_id=None)
    ledger = MemoryLedger()
    service = items_service(ledger.as_port())
    seen: list[str] = []
    real = Commands(service, DeadLetters(client))

    async def settled_but_not_acknowledged(messages: Any) -> int:
        await real.handle(messages)
        seen.extend(commands.message_id(message) for message in messages)
        return 0 if len(seen) < 6 else len(messages)

    partitions = Partitions(client, "items", settled_but_not_acknowledged, partitions=8)
    await partitions.start()
    await eventually(lambda: len(seen) >= 6, "it is delivered several times")
    await partitions.stop()
    assert len(set(seen)) == 2
    assert [added.cause for added in ledger.added] == sorted(set(seen))


async def test_an_operation_of_several_steps_waits_and_is_waited_for(client: Client, serve: Serve) -> None:
    ledger = MemoryLedger()
    seen: list[tuple[int, list[int]]] = []

    async def slowly(number: int) -> None:
        seen.append((number, list(ledger.numbers)))

    for number in range(9):
        await command(client, "add_slowly" if number % 4 == 2 else "add", "a", number)
    await drained(client, serve, items_service(ledger.as_port(), slowly=slowly))
    assert ledger.numbers == list(range(9))
    assert seen == [(2, [0, 1]), (6, [0, 1, 2, 3, 4, 5])]


async def test_a_refused_command_is_a_dead_letter_with_all_that_it_takes_to_repeat_it(
    client: Client, serve: Serve, tmp_path: Path
) -> None:
    ledger = sqlite_ledger(tmp_path / "ledger.db")
    await ledger.open()
    await command(client, "add", "a b", 1, message_id="first")
    await command(client, "add", "a b", 2, message_id="second", expect_last=7)
    await command(client, "add", "a b", 3, message_id="third")
    await drained(client, serve, items_service(ledger))
    assert await numbers_of(ledger, "a b") == [1, 3]
    await ledger.close()
    (letter,) = await messages_in(client, DEAD)
    assert letter.subject == "hive.dead.acme.bot.items.add"
    assert orjson.loads(letter.data) == {"item": "a b", "number": 2, "expect_last": 7}
    assert letter.headers[DEAD_SUBJECT] == "hive.in.acme.bot.items.add.a%20b"
    assert letter.headers[DEAD_MESSAGE_ID] == "second"
    assert letter.headers[MESSAGE_ID] != "second"
    assert (letter.headers[CODE_HEADER], letter.headers[TEXT_HEADER]) == ("40902", "not the last number")
    assert error_of(letter).context == {"expected": 7, "actual": 1}
    assert TypeAdapter(Time).validate_python(letter.headers[DEAD_AT]).year >= 2024


async def test_a_replay_under_another_id_goes_by_the_one_that_it_had(client: Client, serve: Serve) -> None:
    ledger = MemoryLedger()
    subject, body = command_subject("acme", "bot", "items", "add", "a"), b'{"item": "a", "number": 1}'
    await publish(client, subject, body, {MESSAGE_ID: "first"})
    await publish(client, subject, body, {MESSAGE_ID: "first-replay-1", DEAD_MESSAGE_ID: "first"})
    await drained(client, serve, items_service(ledger.as_port()))
    assert [added.cause for added in ledger.added] == ["first"]


@pytest.mark.parametrize(
    ("subject", "data", "code"),
    [
        ("hive.in.acme.bot.items.add.a", b"not JSON", "40001"),
        ("hive.in.acme.bot.items.add.a", b'{"item": "a"}', "40001"),
        ("hive.in.acme.bot.items.add.a", b'{"item": "b", "number": 1}', "40001"),
        ("hive.in.acme.bot.items.add.a%zz", b'{"item": "a", "number": 1}', "40001"),
        ("hive.in.%.bot.items.add.a", b'{"item": "a", "number": 1}', "40001"),
        ("hive.in.acme.bot.items.fly.a", b'{"item": "a", "number": 1}', "40001"),
        ("hive.in.acme.bot.items.look.a", b'{"item": "a", "number": 1}', "40001"),
        ("hive.in.acme.bot.items.add.a", bytes(1_000_001), "41301"),
    ],
)
async def test_what_can_never_succeed_goes_to_dead_and_blocks_nothing(
    client: Client, serve: Serve, subject: str, data: bytes, code: str
) -> None:
    await client.request(subject, data, timeout=2, headers={MESSAGE_ID: "bad"})
    await command(client, "add", "a", 2)
    ledger = MemoryLedger()
    await drained(client, serve, items_service(ledger.as_port()))
    assert ledger.numbers == [2]
    (letter,) = await messages_in(client, DEAD)
    assert letter.headers[CODE_HEADER] == code
    assert (letter.headers[DEAD_SUBJECT], letter.data) == (subject, data)


async def test_a_message_as_large_as_the_server_takes_leaves_its_body_out_of_the_dead_letter(client: Client) -> None:
    data = bytes(client.max_payload - 100)
    subject = "hive.dead.acme.bot.items.add"
    await DeadLetters(client).publish(DeadLetter(subject, data, InvalidRequest("too long"), "hive.in.x", "x", "in:1"))
    (letter,) = await messages_in(client, DEAD)
    assert (letter.headers[DEAD_BODY_OMITTED], letter.data) == (str(len(data)), b"")


async def test_a_message_id_that_is_too_long_is_refused(client: Client, serve: Serve) -> None:
    await command(client, "add", "a", 1, message_id="x" * 257)
    await drained(client, serve, items_service(MemoryLedger().as_port()))
    (letter,) = await messages_in(client, DEAD)
    assert error_of(letter).context == {"field": MESSAGE_ID}


async def test_while_the_store_is_down_commands_wait_in_order(client: Client, serve: Serve) -> None:
    for number in range(40):
        await command(client, "add", "a", number)
    ledger = MemoryLedger()
    ledger.down = True
    async with serve(items_service(ledger.as_port())):
        await eventually(lambda: len(ledger.batches) >= 3, "it is tried again")
        assert ledger.batches[1:3] == [1, 1]
        assert await count_in(client, INGEST) == 40
        ledger.down = False
        await eventually(lambda: len(ledger.added) == 40, "all is written once the store is back")
    assert ledger.numbers == list(range(40))
    assert await messages_in(client, DEAD) == []


async def test_a_full_queue_lets_nothing_overtake(client: Client, serve: Serve) -> None:
    for number in range(40):
        await command(client, "add", "a", number)
    ledger = MemoryLedger()
    ledger.room = 7
    ledger.make_room_when_refused()
    await drained(client, serve, items_service(ledger.as_port()))
    assert ledger.numbers == list(range(40))


async def test_a_retryable_failure_of_a_slow_operation_is_tried_again_before_what_is_behind_it(
    client: Client, serve: Serve
) -> None:
    ledger = MemoryLedger()
    failures = [Unavailable("for now"), Unavailable("for now")]

    async def slowly(number: int) -> None:
        if failures:
            raise failures.pop()

    await command(client, "add_slowly", "a", 0)
    await command(client, "add", "a", 1)
    await drained(client, serve, items_service(ledger.as_port(), slowly=slowly))
    assert ledger.numbers == [0, 1]
    assert failures == []


async def test_an_error_that_is_not_retryable_is_final_for_a_slow_operation_too(client: Client, serve: Serve) -> None:
    async def slowly(number: int) -> None:
        raise LeaseHeld("taken", holder="somebody")

    await command(client, "add_slowly", "a", 0)
    await drained(client, serve, items_service(MemoryLedger().as_port(), slowly=slowly))
    (letter,) = await messages_in(client, DEAD)
    assert letter.headers[CODE_HEADER] == "40904"


async def test_a_fault_is_tried_a_few_times_and_then_given_up_as_internal(client: Client, serve: Serve) -> None:
    tried: list[int] = []

    def decide(number: int) -> None:
        if number == 1:
            tried.append(number)
            raise RuntimeError("a secret of the worker")

    for item, number in (("b", 0), ("a", 1)):
        await command(client, "add", item, number)
    ledger = MemoryLedger()
    await drained(client, serve, items_service(ledger.as_port(), decide=decide))
    assert tried == [1] * commands.ATTEMPTS
    assert ledger.numbers == [0]
    (letter,) = await messages_in(client, DEAD)
    assert letter.headers[CODE_HEADER] == "50001"
    assert "secret" not in str(letter.headers)


async def test_a_fault_that_passes_costs_nothing(client: Client, serve: Serve) -> None:
    faults = [RuntimeError("once"), RuntimeError("twice")]

    async def slowly(number: int) -> None:
        if faults:
            raise faults.pop()

    await command(client, "add_slowly", "a", 0)
    ledger = MemoryLedger()
    await drained(client, serve, items_service(ledger.as_port(), slowly=slowly))
    assert ledger.numbers == [0]
    assert await messages_in(client, DEAD) == []


async def test_a_fault_that_was_overtaken_on_its_own_key_is_not_done_late(client: Client, serve: Serve) -> None:
    faults: list[Exception] = [RuntimeError("once")]

    def decide(number: int) -> None:
        if number == 1 and faults:
            raise faults.pop()

    for number in range(4):
        await command(client, "add", "a", number)
    ledger = MemoryLedger()
    await drained(client, serve, items_service(ledger.as_port(), decide=decide))
    assert ledger.numbers == [0, 2, 3]
    (letter,) = await messages_in(client, DEAD)
    assert letter.headers[DEAD_MESSAGE_ID] == "a-1"


async def test_nothing_is_given_up_while_the_dead_letter_cannot_be_stored(client: Client, serve: Serve) -> None:
    await ask(client, f"STREAM.UPDATE.{DEAD}", await _dead_config(client) | {"subjects": ["elsewhere.>"]})
    await command(client, "fly", "a", 0)
    await command(client, "add", "a", 1)
    ledger = MemoryLedger()
    async with serve(items_service(ledger.as_port())) as partitions:

        async def failing() -> bool:
            return bool((await partitions.status())["failing"])

        await eventually(failing, "it cannot be given up")
        assert await count_in(client, INGEST) == 2
        await ask(client, f"STREAM.UPDATE.{DEAD}", await _dead_config(client) | {"subjects": ["hive.dead.>"]})

        async def empty() -> bool:
            return await count_in(client, INGEST) == 0

        await eventually(empty, "everything is settled")
    assert ledger.numbers == [1]
    assert len(await messages_in(client, DEAD)) == 1


async def _dead_config(client: Client) -> dict[str, Any]:
    config: dict[str, Any] = (await ask(client, f"STREAM.INFO.{DEAD}"))["config"]
    return config


async def test_given_up_twice_is_one_dead_letter(client: Client) -> None:
    dead = DeadLetters(client)
    ledger = MemoryLedger()
    handler = Commands(items_service(ledger.as_port()), dead)
    message = DurableMessage(
        "hive.in.0.acme.bot.items.fly.a", {MESSAGE_ID: "x"}, b"{}", 5, 1, 1, 1_700_000_000_000_000_000, ""
    )
    settled = await asyncio.gather(*(handler.handle([message]) for _ in range(5)))
    assert settled == [1] * 5
    assert len(await messages_in(client, DEAD)) == 1


async def test_failures_are_remembered_within_a_bound(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "REMEMBERED", 3)
    ledger = MemoryLedger()
    ledger.down = True
    handler = Commands(items_service(ledger.as_port()), DeadLetters(client))
    for sequence in range(10):
        message = DurableMessage(
            "hive.in.0.acme.bot.items.add.a", {}, b'{"item": "a", "number": 1}', sequence, 1, 1, 1, ""
        )
        assert await handler.handle([message]) == 0
    assert len(handler._failures) == 3  # pyright: ignore[reportPrivateUsage]  # a bound shows nowhere else
