"""Streams are declared on demand, repeatedly, and unusable ones are refused by name."""

import asyncio
from typing import Any

import nats.errors
import orjson
import pytest
from nats.aio.client import Client

from hivemem_contracts.limits import MESSAGE_BYTES
from hivemem_contracts.streams import CHANGES, DEAD, INGEST, MEMBERS
from hivemem_contracts.subjects import command_subject
from hivemem_runtime.bus.jetstream import ask
from hivemem_runtime.bus.streams import COMMAND_BYTES, StreamConflict, StreamSettings, declare

from .conftest import SETTINGS
from .stored import change, command, messages_in
from .waiting import eventually

ALL = (INGEST, CHANGES, DEAD, f"KV_{MEMBERS}")


async def config_of(client: Client, stream: str) -> dict[str, Any]:
    config: dict[str, Any] = (await ask(client, f"STREAM.INFO.{stream}"))["config"]
    return config


async def test_declaring_again_changes_nothing(client: Client) -> None:
    before = [await config_of(client, stream) for stream in ALL]
    await declare(client, SETTINGS)
    assert [await config_of(client, stream) for stream in ALL] == before


async def test_workers_that_start_together_all_succeed(bare_client: Client) -> None:
    await asyncio.gather(*(declare(bare_client, SETTINGS) for _ in range(5)))
    assert [(await config_of(bare_client, stream))["name"] for stream in ALL] == list(ALL)


async def test_what_may_change_is_updated(client: Client) -> None:
    await change(client, "a", 1)
    settings = SETTINGS.model_copy(update={"changes_max_age_seconds": 60, "duplicate_window_seconds": 30})
    await declare(client, settings)
    config = await config_of(client, CHANGES)
    assert (config["max_age"], config["duplicate_window"]) == (60 * 10**9, 30 * 10**9)
    assert len(await messages_in(client, CHANGES)) == 1


async def test_an_older_declaration_is_brought_up_to_date(bare_client: Client) -> None:
    plain = {"name": CHANGES, "subjects": ["hive.chg.>"], "storage": "file", "retention": "limits"}
    await ask(bare_client, f"STREAM.CREATE.{CHANGES}", plain)
    await declare(bare_client, SETTINGS)
    config = await config_of(bare_client, CHANGES)
    assert config["allow_atomic"] is True
    assert config["allow_direct"] is True
    assert config["republish"]["dest"] == "hive.live.>"


@pytest.mark.parametrize(
    ("field", "value"), [("retention", "limits"), ("storage", "memory"), ("subjects", ["hive.in.>"])]
)
async def test_a_stream_that_cannot_serve_is_refused_by_name_and_field(
    bare_client: Client, field: str, value: object
) -> None:
    other = {"name": INGEST, "subjects": ["hive.in.*.*.*.*.*"], "storage": "file", "retention": "workqueue"}
    await ask(bare_client, f"STREAM.CREATE.{INGEST}", other | {field: value})
    with pytest.raises(StreamConflict, match=rf"INGEST.*{field}"):
        await declare(bare_client, SETTINGS)


async def test_a_stream_of_somebody_else_on_our_subjects_is_refused_by_name(bare_client: Client) -> None:
    await ask(bare_client, "STREAM.CREATE.OTHER", {"name": "OTHER", "subjects": ["hive.dead.>"], "storage": "memory"})
    try:
        with pytest.raises(StreamConflict, match=r"DEAD.*overlap"):
            await declare(bare_client, SETTINGS)
    finally:
        await ask(bare_client, "STREAM.DELETE.OTHER")


async def test_the_number_of_partitions_stays_while_commands_wait(client: Client) -> None:
    more = SETTINGS.model_copy(update={"partitions": 16})
    await command(client, "add", "a", 1)
    with pytest.raises(StreamConflict, match="subject_transform"):
        await declare(client, more)
    await ask(client, f"STREAM.PURGE.{INGEST}")
    await declare(client, more)
    assert "partition(16," in (await config_of(client, INGEST))["subject_transform"]["dest"]


async def test_tenant_and_route_decide_the_partition_and_nothing_else(client: Client) -> None:
    for number in range(20):
        await command(client, "add", "a", number)
        await command(client, "add_slowly", "a", number)
    subjects = {stored.subject for stored in await messages_in(client, INGEST)}
    assert len({subject.split(".")[2] for subject in subjects}) == 1
    for item in range(40):
        await command(client, "add", f"item{item}", 1)
    partitions = {stored.subject.split(".")[2] for stored in await messages_in(client, INGEST)}
    assert partitions == {str(partition) for partition in range(8)}


@pytest.mark.parametrize("subject", ["hive.in.acme.bot.items.add", "hive.in.0.acme.bot.items.add.a"])
async def test_nobody_can_publish_in_the_stored_form_and_name_another_tenant(client: Client, subject: str) -> None:
    with pytest.raises(nats.errors.NoRespondersError):
        await client.request(subject, b"{}", timeout=1)


async def test_the_same_message_id_of_two_tenants_is_two_commands(client: Client) -> None:
    await command(client, "add", "a", 1, message_id="1")

    async def taken() -> bool:
        return not (await command(client, "add", "a", 1, message_id="1", tenant="other")).get("duplicate")

    await eventually(taken, "the other tenant's is stored", deadline_seconds=1)
    assert len(await messages_in(client, INGEST)) == 2


async def test_a_full_ingest_refuses_the_publisher_and_keeps_what_it_has(bare_client: Client) -> None:
    await declare(bare_client, SETTINGS.model_copy(update={"ingest_max_bytes": 1024 * 1024}))
    subject = command_subject("acme", "bot", "items", "add", "a")
    answers = [orjson.loads((await bare_client.request(subject, bytes(100_000), timeout=2)).data) for _ in range(15)]
    taken = [answer for answer in answers if "error" not in answer]
    refused = [answer["error"]["err_code"] for answer in answers if "error" in answer]
    assert len(taken) == 10
    assert set(refused) == {10077}
    assert [stored.data for stored in await messages_in(bare_client, INGEST)] == [bytes(100_000)] * 10


async def test_a_change_is_republished_below_the_live_prefix(client: Client) -> None:
    received = await client.subscribe("hive.live.>")  # pyright: ignore[reportUnknownMemberType]  # an untyped Future
    await change(client, "a", 1)
    message = await received.next_msg(timeout=2)
    assert message.subject == "hive.live.acme.item.a"
    assert (message.headers or {})["Nats-Sequence"] == "1"


@pytest.mark.parametrize("field", ["replicas", "partitions", "changes_max_bytes"])
def test_settings_have_bounds(field: str) -> None:
    with pytest.raises(ValueError, match=field):
        StreamSettings.model_validate({field: 0})


async def test_a_command_that_no_worker_takes_for_its_size_is_refused_by_the_stream(client: Client) -> None:
    subject = "hive.in.acme.bot.items.add.a"
    assert "error" not in orjson.loads((await client.request(subject, bytes(MESSAGE_BYTES), timeout=5)).data)
    answer = orjson.loads((await client.request(subject, bytes(COMMAND_BYTES + 1), timeout=5)).data)
    assert answer["error"]["err_code"] == 10054
    assert len(await messages_in(client, INGEST)) == 1
