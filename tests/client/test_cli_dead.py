"""`hivemem dead` lists, shows, replays and discards dead letters."""

import hivemem
from hivemem_contracts.streams import INGEST
from hivemem_testing.contract import Server

from .commands import invoke, invoke_json, on_screen
from .fleet import Fleet

GONE = hivemem.NotFound("there is no session s1", session_id="s1")


async def test_the_list_names_what_and_why(shared_server: Server, fleet: Fleet) -> None:
    none = await on_screen(shared_server.url, "dead", "list")
    await fleet.bury("acme", GONE)
    await fleet.bury("acme", GONE)

    shown = await on_screen(shared_server.url, "dead", "list", "--limit", "1")
    piped = await invoke(shared_server.url, "dead", "list")
    document = await invoke_json(shared_server.url, "dead", "list")

    assert none == "none\n"
    assert "NotFound: there is no session s1" in shown
    assert "dead list --limit 1 --cursor 2\n" in shown
    assert [line.split("\t")[:3] for line in piped.stdout.splitlines()] == [
        [number, "sessions.append", "s1"] for number in ("1", "2")
    ]
    assert [item["sequence"] for item in document["items"]] == [1, 2]
    assert document["items"][0]["error"]["code"] == 40401


async def test_one_is_shown_with_its_body(shared_server: Server, fleet: Fleet) -> None:
    await fleet.bury("acme", GONE)

    shown = await invoke(shared_server.url, "dead", "show", "1")
    screen = await on_screen(shared_server.url, "dead", "show", "1")
    document = await invoke_json(shared_server.url, "dead", "show", "1")

    assert '{"session_id":"s1","event":{"type":"note"}}' in shown.stdout
    assert screen.endswith("body\n  session_id  s1\n  event\n    type  note\n")
    assert document["subject"] == "hive.in.acme.bot.sessions.append.s1"
    assert document["body"] == '{"session_id":"s1","event":{"type":"note"}}'


async def test_replay_and_discard_take_it_off_the_list(shared_server: Server, fleet: Fleet) -> None:
    for _ in range(3):
        await fleet.bury("acme", GONE)

    replayed = await invoke(shared_server.url, "dead", "replay", "1")
    discarded = await invoke(shared_server.url, "dead", "discard", "2", "--yes")
    document = await invoke_json(shared_server.url, "dead", "discard", "3", "--yes")

    assert "is command 1 now, with id m1" in replayed.stdout
    assert "dead letter 2 is discarded" in discarded.stdout
    assert document == {"discarded": 3}
    assert len(await fleet.stored(INGEST)) == 1
    assert (await invoke_json(shared_server.url, "dead", "list"))["items"] == []


async def test_the_receipt_of_a_replay_is_json(shared_server: Server, fleet: Fleet) -> None:
    await fleet.bury("acme", GONE)

    receipt = await invoke_json(shared_server.url, "dead", "replay", "1")

    assert (receipt["message_id"], receipt["route"]) == ("m1", "s1")


async def test_what_is_not_there_is_exit_code_1(shared_server: Server, fleet: Fleet) -> None:
    result = await invoke(shared_server.url, "dead", "show", "9")

    assert result.exit_code == 1
    assert "NotFound (40401)" in result.stderr
