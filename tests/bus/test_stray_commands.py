"""Commands that no consumer takes go to DEAD; commands of services whose workers are down stay."""

import asyncio
from typing import Any, Final

import orjson
import pytest
from nats.aio.client import Client

from hivemem_contracts.errors import InvalidRequest, error_from_body
from hivemem_contracts.streams import DEAD, DEAD_ERROR, DEAD_MESSAGE_ID, DEAD_SUBJECT, INGEST
from hivemem_runtime.bus.commands import stray_commands
from hivemem_runtime.bus.commands.partitions import Partitions
from hivemem_runtime.bus.commands.stray_commands import StrayCommands
from hivemem_runtime.bus.dead_letters import DeadLetters
from hivemem_runtime.bus.jetstream import ask
from hivemem_runtime.bus.wire import send

from .stored import command, count_in, messages_in
from .waiting import eventually

ODD_HEADERS: Final = (
    b"NATS/1.0\r\n\x01odd: \xff\xfe\r\nno colon\r\n\r\n",
    b"\r\n\r\n",
    b"x",
    b"NATS/1.0\r\nNats-Msg-Id: a\nb\r\n\r\n",
)


async def moved(client: Client) -> int:
    strays = StrayCommands(client, DeadLetters(client))
    return await strays.move((await ask(client, f"STREAM.INFO.{INGEST}"))["state"])


async def nobody(messages: Any) -> int:
    return 0


@pytest.fixture
async def items_is_served(client: Client) -> None:
    """The service has consumers, although it is not in the catalogue; they stay when its workers stop."""
    partitions = Partitions(client, "items", nobody, partitions=8)
    await partitions.start()
    await partitions.stop()


@pytest.mark.usefixtures("items_is_served")
async def test_commands_of_an_unknown_service_become_dead_letters_and_all_others_stay(client: Client) -> None:
    for service in ("sesions", "memory", "items", "sessions"):
        for number in range(3):
            await command(client, "append", f"s{number}", number, service=service, message_id=f"{service}-{number}")
    assert await moved(client) == 3
    assert await moved(client) == 0
    letters = await messages_in(client, DEAD)
    assert [letter.subject for letter in letters] == ["hive.dead.acme.bot.sesions.append"] * 3
    assert {letter.headers[DEAD_MESSAGE_ID] for letter in letters} == {"sesions-0", "sesions-1", "sesions-2"}
    assert letters[0].headers[DEAD_SUBJECT].startswith("hive.in.acme.bot.sesions.append.s")
    assert orjson.loads(letters[0].data)["item"].startswith("s")
    error = error_from_body(orjson.loads(letters[0].headers[DEAD_ERROR]))
    assert isinstance(error, InvalidRequest)
    assert error.detail == "subject: there is no service 'sesions'; did you mean 'sessions'?"
    assert await count_in(client, INGEST) == 9


async def test_workers_that_look_at_once_make_one_letter_of_each(client: Client) -> None:
    for number in range(40):
        await command(client, "append", f"s{number}", number, service="nobody")
    await asyncio.gather(*(moved(client) for _ in range(4)))
    assert await count_in(client, INGEST) == 0
    assert await count_in(client, DEAD) == 40


async def test_a_flood_of_strays_takes_a_few_looks(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stray_commands, "MOVED_AT_ONCE", 16)
    for number in range(40):
        await command(client, "append", f"s{number % 3}", number, service=f"nobody{number % 2}")
    strays = StrayCommands(client, DeadLetters(client))
    counts = [await strays.move((await ask(client, f"STREAM.INFO.{INGEST}"))["state"]) for _ in range(4)]
    assert counts == [16, 16, 8, 0]
    assert await count_in(client, DEAD) == 40


@pytest.mark.parametrize("service", ["*", ">", "%", "ü", "x" * 2_000, "items%20"])
async def test_odd_services_harm_no_other_commands(client: Client, service: str) -> None:
    await command(client, "append", "s", 1, service="sessions")
    subject = f"hive.in.acme.bot.{service}.append.s"
    for head in ODD_HEADERS:
        frame = b"HPUB %b %d %d\r\n%b{}\r\n" % (subject.encode(), len(head), len(head) + 2, head)
        await send(client, [frame])
    await client.flush()
    await moved(client)
    left = [stored.subject for stored in await messages_in(client, INGEST)]
    assert [subject.split(".")[5] for subject in left if ".sessions." in subject] == ["sessions"]
    assert len(left) == 1


async def test_a_stray_is_noticed_while_a_worker_runs(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stray_commands, "LOOK_SECONDS", 0.05)
    strays = StrayCommands(client, DeadLetters(client))
    strays.start()
    await command(client, "append", "s", 1, service="memorie")

    async def gone() -> bool:
        return await count_in(client, INGEST) == 0

    await eventually(gone, "it is moved")
    await eventually(lambda: strays.status() == {"moved": 1}, "it is counted")
    await strays.stop()
