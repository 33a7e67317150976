"""Dead letters can be read with their reason, replayed with their original bytes, and discarded."""

import pytest

import hivemem
from hivemem_contracts.streams import (
    COMMAND_ID,
    DEAD,
    DEAD_BODY_OMITTED,
    DEAD_ERROR,
    DEAD_SUBJECT,
    INGEST,
    MESSAGE_ID,
)

from .fleet import Fleet

GONE = hivemem.NotFound("there is no session s1", session_id="s1")
BODY = b'{"session_id":"s1","event":{"type":"note"}}'


async def test_a_dead_letter_has_its_error_and_its_original_bytes(hive: hivemem.Hive, fleet: Fleet) -> None:
    await fleet.bury("acme", GONE)

    (letter,) = (await hive.dead.list()).items

    assert letter == await hive.dead.get(1) or letter.sequence == 1
    assert (letter.subject, letter.message_id) == ("hive.in.acme.bot.sessions.append.s1", "m1")
    assert (letter.agent, letter.operation, letter.route) == ("bot", "sessions.append", "s1")
    assert type(letter.error) is hivemem.NotFound
    assert letter.error.context == {"session_id": "s1"}
    assert letter.data == BODY


async def test_the_list_is_paged_and_of_one_tenant(hive: hivemem.Hive, fleet: Fleet) -> None:
    for tenant in ("acme", "other", "acme", "acme", "other"):
        await fleet.bury(tenant, GONE)

    first = await hive.dead.list(limit=2)
    rest = await hive.dead.list(limit=2, cursor=first.cursor)

    assert [letter.sequence for letter in first.items] == [1, 3]
    assert [letter.sequence for letter in rest.items] == [4]
    assert rest.cursor is None


async def test_an_empty_list_is_one(hive: hivemem.Hive) -> None:
    page = await hive.dead.list()

    assert (page.items, page.cursor) == ([], None)


async def test_a_letter_of_another_tenant_is_not_there(hive: hivemem.Hive, fleet: Fleet) -> None:
    await fleet.bury("other", GONE)

    for number in (1, 2, 0, -1):
        with pytest.raises(hivemem.NotFound):
            await hive.dead.get(number)
    with pytest.raises(hivemem.NotFound):
        await hive.dead.discard(1)
    with pytest.raises(hivemem.NotFound):
        await hive.dead.replay(1)


@pytest.mark.parametrize(("limit", "cursor"), [(0, None), (1001, None), (10, "next"), (10, "-1")])
async def test_a_wrong_page_is_refused(hive: hivemem.Hive, limit: int, cursor: str | None) -> None:
    with pytest.raises(hivemem.InvalidRequest):
        await hive.dead.list(limit, cursor)


async def test_replay_publishes_the_original_bytes_under_the_original_id(hive: hivemem.Hive, fleet: Fleet) -> None:
    await fleet.bury("acme", GONE, traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")

    receipt = await hive.dead.replay(1)

    message = await fleet.client.request(f"$JS.API.DIRECT.GET.{INGEST}", b'{"seq":1}')
    headers = message.headers or {}
    assert message.data == BODY
    assert headers["Nats-Subject"] == "hive.in.acme.bot.sessions.append.s1"
    assert headers[COMMAND_ID] == receipt.message_id == "m1"
    assert MESSAGE_ID not in headers, "the bus itself would take it for a duplicate of a moment ago"
    assert headers["traceparent"].startswith("00-")
    assert (await hive.dead.list()).items == []


async def test_a_replay_is_kept_also_right_behind_the_command(hive: hivemem.Hive, fleet: Fleet) -> None:
    await hive.publish("sessions.append", {"session_id": "s1", "event": {"type": "note"}}, message_id="m1")
    await fleet.bury("acme", GONE)

    await hive.dead.replay(1)

    assert len(await fleet.stored(INGEST)) == 2


async def test_a_letter_that_is_no_command_is_not_replayed(hive: hivemem.Hive, fleet: Fleet) -> None:
    await fleet.bury("acme", GONE, **{DEAD_SUBJECT: "hive.chg.acme.event.s1"})
    await fleet.bury("acme", GONE, **{DEAD_SUBJECT: "hive.in.other.bot.sessions.append.s1"})
    await fleet.bury("acme", GONE, **{DEAD_BODY_OMITTED: "2000000"})

    for sequence in (1, 2, 3):
        with pytest.raises(hivemem.InvalidRequest):
            await hive.dead.replay(sequence)
    assert len((await hive.dead.list()).items) == 3


async def test_discard_deletes_one(hive: hivemem.Hive, fleet: Fleet) -> None:
    await fleet.bury("acme", GONE)
    await fleet.bury("acme", GONE)

    await hive.dead.discard(1)

    assert [letter.sequence for letter in (await hive.dead.list()).items] == [2]
    with pytest.raises(hivemem.NotFound):
        await hive.dead.discard(1)


async def test_a_letter_with_a_damaged_error_is_shown_by_its_headers(hive: hivemem.Hive, fleet: Fleet) -> None:
    await fleet.bury("acme", GONE, **{DEAD_ERROR: "{"})
    await fleet.bury("acme", GONE, **{DEAD_ERROR: "[]", DEAD_SUBJECT: "hive.in.acme.bot.sessions.append.%ZZ"})

    first, second = (await hive.dead.list()).items

    assert first.error.detail == second.error.detail == GONE.detail
    assert type(first.error) is hivemem.NotFound
    assert second.route == "%ZZ"


async def test_without_the_stream_it_is_unavailable(hive: hivemem.Hive, fleet: Fleet) -> None:
    await fleet.api(f"STREAM.DELETE.{DEAD}")

    with pytest.raises(hivemem.Unavailable, match="dead letters"):
        await hive.with_options(timeout_seconds=0.3).dead.list()
