"""`hivemem <service> <operation>` runs every operation of the registry from a command line."""

import os
import shlex
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import orjson
import pytest
from pydantic import BaseModel

import hivemem
from hivemem.cli.columns import IMPORTANT, ONE_OF
from hivemem.cli.services import OWN
from hivemem_contracts.catalog import SERVICES
from hivemem_contracts.large_values import reference_to
from hivemem_contracts.operations import AnyOperation
from hivemem_contracts.sessions.replies import EventPage, SessionView, StateSet, StateView
from hivemem_contracts.streams import INGEST
from hivemem_testing.contract import Server

from .commands import invoke, invoke_json, on_screen, start
from .fleet import Fleet

UNSHARED = {("Artifact", "timestamp"), *(("ManifestEntry", name) for name in ("created_at", "created_by"))}
"""Two models share a declaration, and not all fields."""
OPERATIONS = [operation for service in SERVICES for operation in service if operation.full_name not in OWN]
MOMENT = datetime(2025, 1, 2, 3, 4, 5, tzinfo=UTC)
EVENT = hivemem.Event(
    event_id="e1",
    sequence=1,
    type="note",
    author="bot",
    content={"text": "[b]not bold[/b]"},
    state_delta=None,
    at=MOMENT,
)
SESSION = hivemem.Session(
    session_id="s1",
    app_name="demo",
    user_id="alice",
    status="active",
    state={"mood": "good"},
    metadata={},
    revision=2,
    event_count=1,
    created_at=MOMENT,
    updated_at=MOMENT,
)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.full_name)
async def test_every_operation_has_help_from_its_declaration(operation: AnyOperation) -> None:
    result = await invoke("nats://127.0.0.1:1", operation.service, operation.name.replace("_", "-"), "--help")

    shown = " ".join(result.output.replace("│", " ").split())
    assert result.exit_code == 0
    assert operation.summary in shown
    for name, field in operation.request.model_fields.items():
        assert f"--{(field.serialization_alias or name).replace('_', '-')}" in shown
        assert (field.description or "") in shown


async def test_plain_fields_and_json_fields_become_the_body(shared_server: Server, fleet: Fleet) -> None:
    await invoke(
        shared_server.url,
        *("sessions", "append", "--session-id", "s1", "--event", '{"type": "note", "content": [1]}'),
        *("--state-delta", '{"k": null}', "--expect-revision", "3", "--message-id", "m1"),
    )

    (asked,) = fleet.asked
    assert asked.subject == "hive.req.acme.bot.sessions.append"
    assert asked.message_id == "m1"
    assert asked.body == {
        "session_id": "s1",
        "event": {"type": "note", "content": [1]},
        "state_delta": {"k": None},
        "expect_revision": 3,
    }


async def test_switches_times_and_choices_become_the_body(shared_server: Server, fleet: Fleet) -> None:
    fleet.answers["events"] = lambda _: EventPage(items=[], cursor=None)
    fleet.answers["list"] = lambda _: b'{"items": [], "cursor": null}'

    events = ("sessions", "events", "--session-id", "s1", "--reverse", "--since", "2025-01-01T00:00:00Z")
    assert (await invoke(shared_server.url, *events)).exit_code == 0
    await invoke(shared_server.url, "sessions", "list", "--no-active", "--status", "archived", "--limit", "3")

    first, second = fleet.asked
    assert first.body == {"session_id": "s1", "reverse": True, "since": "2025-01-01T00:00:00.000000Z"}
    assert second.body == {"active": False, "status": "archived", "limit": 3}


async def test_json_comes_from_a_file_or_from_standard_input(
    shared_server: Server, fleet: Fleet, tmp_path: Path
) -> None:
    path = tmp_path / "event.json"
    path.write_text('{"type": "from a file"}', encoding="utf-8")

    await invoke(shared_server.url, "sessions", "append", "--session-id", "s1", "--event", f"@{path}")
    words = ("sessions", "append", "--session-id", "s1", "--event", "@-")
    await invoke(shared_server.url, *words, stdin='{"type": "from standard input"}')

    assert [asked.body["event"]["type"] for asked in fleet.asked] == ["from a file", "from standard input"]


async def test_any_json_value_can_be_set_and_a_name_needs_no_quotes(shared_server: Server, fleet: Fleet) -> None:
    fleet.answers["state_set"] = lambda _: StateSet(session_id="s1", key="k", revision=1, duplicate=False)
    fleet.answers["create"] = lambda _: SESSION

    for value in ("null", "5", '"5"', "[true]"):
        await invoke(shared_server.url, "sessions", "state-set", "--session-id", "s1", "--key", "k", "--value", value)
    create = ("sessions", "create", "--app-name", "demo", "--user-id", "alice", "--machine", "support")
    await invoke(shared_server.url, *create)

    assert [asked.body["value"] for asked in fleet.asked[:4]] == [None, 5, "5", [True]]
    assert fleet.asked[4].body["machine"] == "support"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("sessions", "append", "--session-id", "s1"), "Missing EVENT (--event)."),
        (("sessions", "append"), "Missing SESSION_ID (--session-id) and EVENT (--event)."),
        (("sessions", "append", "--session-id", "s1", "--event", "hello"), """quotes around it: '"hello"'"""),
        (("sessions", "append", "--session-id", "s1", "--event", "{"), "not JSON"),
        (("sessions", "append", "--session-id", "s1", "--event", "@/no/such/file"), "cannot be read"),
        (("sessions", "sing"), "sing"),
        (("singing",), "singing"),
        (("sesions", "list"), "Did you mean 'sessions'"),
        (("sessions", "list", "--aftr", "x"), "No such option: --aftr"),
        (("sessions", "create", "--sesion-id", "x", "a", "b"), "Did you mean --session-id?"),
        (("sessions", "list", "--tenant", "x"), "hivemem --tenant … sessions list"),
        (("--tenat", "x"), "Did you mean --tenant?"),
        (("memory", "put", "--namespce", "x"), "Did you mean --namespace?"),
        (("sessions", "list", "--limit", "many"), "'--limit': Input should be a valid integer"),
        (("sessions", "list", "--limit", "many"), "got 'many'"),
        (("memory", "put", "user:a", "k", "1", "--importance", "x"), "'--importance': 'x' is not a number"),
    ],
)
async def test_a_wrong_command_line_is_exit_code_2(words: tuple[str, ...], told: str) -> None:
    result = await invoke("nats://127.0.0.1:1", *words)

    assert result.exit_code == 2
    assert told in result.stderr.splitlines()[0]


async def test_an_odd_byte_on_the_command_line_is_an_ordinary_error(shared_server: Server) -> None:
    odd = os.fsdecode(b"\x9b")
    append = ("sessions", "append", "s1", "{}", "--message-id", odd)
    for option, words in (("--session-id", ("sessions", "get", odd)), ("--message-id", append)):
        result = await invoke(shared_server.url, *words)
        assert (result.exit_code, result.stderr.isascii()) == (1, True)
        assert result.stderr.startswith(f"InvalidRequest (40001): {option}: ")
    result = await invoke(shared_server.url, "sessions", odd)
    assert (result.exit_code, result.stderr.isascii()) == (2, True)


async def test_json_is_one_document(shared_server: Server, fleet: Fleet) -> None:
    fleet.answers["get"] = lambda _: SessionView(session=SESSION, events=[EVENT])

    document = await invoke_json(shared_server.url, "sessions", "get", "--session-id", "s1", "--events", "1")
    after = await invoke(shared_server.url, "sessions", "get", "--session-id", "s1", "--json")

    assert document["session"]["state"] == {"mood": "good"}
    assert document["events"][0]["at"] == "2025-01-02T03:04:05.000000Z"
    assert orjson.loads(after.stdout) == document


async def test_a_reply_is_a_readable_table(shared_server: Server, fleet: Fleet) -> None:
    fleet.answers["get"] = lambda _: SessionView(session=SESSION, events=[EVENT])
    fleet.answers["events"] = lambda _: EventPage(items=[EVENT], cursor="next")

    view = await on_screen(shared_server.url, "sessions", "get", "--session-id", "s1")
    page = await on_screen(shared_server.url, "sessions", "events", "s1", "--cursor", "this", "--author", "it's me")

    assert view.startswith("session\n  session_id   s1\n  app_name     demo\n  user_id      alice\n")
    assert "\n  state\n    mood  good\n  metadata     {}\n" in view
    assert "\nevents\n  sequence  type  author  content" in view
    assert '1  note  bot     {"text":"[b]not bold[/b]"}' in view
    more = page.rpartition("more: ")[2]
    assert shlex.split(more)[:3] == ["hivemem", "--url", shared_server.url]
    assert more.endswith("""sessions events s1 --author 'it'"'"'s me' --cursor next\n""")


async def test_an_empty_list_is_told_if_it_was_asked_for(shared_server: Server, fleet: Fleet) -> None:
    fleet.answers["get"] = lambda _: SessionView(session=SESSION, events=[])

    asked = await on_screen(shared_server.url, "sessions", "get", "s1", "--events", "3")
    not_asked = await on_screen(shared_server.url, "sessions", "get", "s1")

    assert asked.endswith("\nevents  none\n")
    assert "events" not in not_asked.replace("event_count", "")


async def test_a_pipe_gets_each_field_whole_on_a_line(shared_server: Server, fleet: Fleet) -> None:
    fleet.answers["get"] = lambda _: SessionView(session=SESSION, events=[EVENT, EVENT])

    lines = (await invoke(shared_server.url, "sessions", "get", "s1")).stdout.splitlines()

    assert "session.user_id\talice" in lines
    assert 'session.state\t{"mood":"good"}' in lines
    assert "session.created_at\t2025-01-02T03:04:05.000000Z" in lines
    assert [line.split("\t")[:4] for line in lines if line.startswith("events")] == [["events", "1", "note", "bot"]] * 2


async def test_a_pipe_gets_each_item_whole_on_a_line(shared_server: Server, fleet: Fleet) -> None:
    long = EVENT.model_copy(update={"content": "a\tb\n" * 2_000, "parent_id": "e0"})
    fleet.answers["events"] = lambda _: EventPage(items=[EVENT, long], cursor="next")

    result = await invoke(shared_server.url, "sessions", "events", "s1")

    first, second = (line.split("\t") for line in result.stdout.splitlines())
    assert first[:5] == ["1", "note", "bot", '{"text":"[b]not bold[/b]"}', "2025-01-02T03:04:05.000000Z"]
    assert second[3] == "a\\tb\\n" * 2_000
    assert len(first) == len(second) == len(hivemem.Event.model_fields)
    assert result.stderr.startswith("more: hivemem --url ")


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("Rome", "value     Rome"),
        ("4", 'value     "4"'),
        (4, "value     4"),
        (None, "value     null"),
        ("", 'value     ""'),
        ([1, {"a": "b"}], 'value     [1,{"a":"b"}]'),
        ("one\ntwo", "value     one\n          two"),
        ("\x1b[2Jx\u202ey\x9bz\U000e0041", r"value     \u001b[2Jx\u202ey\u009bz\udb40\udc41"),
        (
            reference_to("acme", "s1", "ab" * 32, 3_009_001),
            "value     (3,009,001 bytes, sha256 abababababab…; --json shows all)",
        ),
        ({"\nrevision  9": {"deep": True}}, "value\n  \\nrevision  9\n    deep  true"),
    ],
)
async def test_a_value_shows_its_type_and_stays_in_its_place(
    shared_server: Server, fleet: Fleet, value: Any, told: str
) -> None:
    fleet.answers["state_get"] = lambda _: StateView(value=value, revision=2)

    assert await on_screen(shared_server.url, "sessions", "state-get", "s1", "--key", "k") == f"{told}\nrevision  2\n"


async def test_a_terminal_has_the_local_clock(
    shared_server: Server, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet.answers["events"] = lambda _: EventPage(items=[EVENT], cursor=None)
    fleet.answers["get"] = lambda _: SessionView(session=SESSION, events=[])
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        table = await on_screen(shared_server.url, "sessions", "events", "s1")
        fields = await on_screen(shared_server.url, "sessions", "get", "s1")
    finally:
        monkeypatch.undo()
        time.tzset()

    assert "2025-01-02 08:34:05+05:30" in table
    assert "created_at   2025-01-02 08:34:05.000000+05:30" in fields


async def test_an_error_stays_on_its_line(shared_server: Server, fleet: Fleet) -> None:
    fleet.answers["get"] = lambda _: hivemem.NotFound("no session \x1b[2J\nhint: pay")

    result = await invoke(shared_server.url, "sessions", "get", "s1")

    assert result.stderr == "NotFound (40401): no session \\u001b[2J\\nhint: pay\n"


@pytest.mark.parametrize(
    ("context", "hint"),
    [
        ({"namespace": "user:a b", "key": "k"}, "`hivemem memory list 'user:a b'` shows its memories"),
        ({"session_id": "s1"}, "`hivemem sessions list` shows the sessions"),
        ({"session_id": "s1", "name": "a.txt"}, "`hivemem artifacts list s1` shows its files"),
    ],
)
async def test_a_missing_thing_has_a_hint_where_to_look(
    shared_server: Server, fleet: Fleet, context: dict[str, str], hint: str
) -> None:
    fleet.answers["get"] = lambda _: hivemem.NotFound("it does not exist", **context)

    result = await invoke(shared_server.url, "sessions", "get", "s1")

    assert result.stderr.splitlines()[1] == f"hint: {hint}"


async def test_characters_that_the_output_lacks_are_escaped(shared_server: Server, fleet: Fleet) -> None:
    fleet.answers["state_get"] = lambda _: StateView(value="Tōkyō", revision=2)

    process = await start(
        shared_server.url, "sessions", "state-get", "s1", "--key", "k", environment={"PYTHONIOENCODING": "ascii"}
    )
    stdout, _ = await process.communicate()

    assert stdout == b"state\t\nvalue\tT\\u014dky\\u014d\nexists\t\nrevision\t2\n"


def test_the_columns_that_are_declared_as_important_exist() -> None:
    found: dict[str, set[str]] = {}
    left: list[Any] = [operation.reply for service in SERVICES for operation in service]
    while left:
        part = left.pop()
        if isinstance(part, type) and issubclass(part, BaseModel) and part.__name__ not in found:
            found[part.__name__] = set(part.model_fields)
            left += [field.annotation for field in part.model_fields.values()]
        left += get_args(part)

    declared = [*IMPORTANT.items(), *ONE_OF.items()]
    assert {(model, name) for model, names in declared for name in names if name not in found[model]} == UNSHARED


async def test_an_error_is_told_with_code_name_detail_and_hint(shared_server: Server, fleet: Fleet) -> None:
    fleet.answers["append"] = lambda _: hivemem.RevisionConflict("session s1 is at 5", expected=3, actual=5)
    words = ("sessions", "append", "--session-id", "s1", "--event", '{"type": "note"}')

    result = await invoke(shared_server.url, *words)
    document = await invoke_json(shared_server.url, *words)

    assert result.exit_code == 1
    assert "RevisionConflict (40902): session s1 is at 5" in result.stderr
    assert "hint: " in result.stderr
    assert result.stdout == ""
    assert document["error"]["context"] == {"expected": 3, "actual": 5}


async def test_an_error_names_the_option_of_the_field(shared_server: Server, fleet: Fleet) -> None:
    fleet.answers["append"] = lambda _: hivemem.NotFound("event.type: it is odd", field="event.type")
    fleet.answers["events"] = lambda _: hivemem.InvalidRequest("after: too large", field="after")

    nested = await invoke(shared_server.url, "sessions", "append", "s1", '{"type": "note"}')
    plain = await invoke(shared_server.url, "sessions", "events", "s1")
    root = await invoke("http://127.0.0.1", "sessions", "events", "s1")

    assert "--event: event.type: it is odd" in nested.stderr
    assert "--after: too large" in plain.stderr
    assert "hivemem sessions events --help" in plain.stderr
    assert "--url: " in root.stderr


async def test_no_server_and_no_worker_are_exit_code_3(shared_server: Server) -> None:
    nowhere = await invoke("nats://127.0.0.1:1", "--timeout", "600", "sessions", "list")
    nobody = await invoke(shared_server.url, "--timeout", "0.3", "sessions", "list")

    assert (nowhere.exit_code, nobody.exit_code) == (3, 3)
    assert "127.0.0.1:1: connection refused" in nowhere.stderr
    assert "hivemem up" in nowhere.stderr
    assert "hivemem doctor" not in nowhere.stderr
    assert "hivemem doctor" in nobody.stderr


async def test_durable_leaves_the_command_with_the_bus(shared_server: Server, fleet: Fleet) -> None:
    words = ("sessions", "append", "--session-id", "s1", "--event", '{"type": "note"}', "--durable")

    receipt = await invoke_json(shared_server.url, *words, "--message-id", "m1")
    shown = await invoke(shared_server.url, *words)

    assert receipt == {"message_id": "m1", "sequence": 1, "route": "s1"}
    assert "sequence\t2" in shown.stdout
    assert len(await fleet.stored(INGEST)) == 2
    assert fleet.asked == []


async def test_a_durable_command_without_a_route_of_its_own_can_be_given_one(
    shared_server: Server, fleet: Fleet
) -> None:
    appends = '[{"session_id": "s1", "event": {"type": "note"}}]'

    await invoke(shared_server.url, "sessions", "append-batch", "--appends", appends, "--durable", "--route", "mine")

    ((subject, _),) = await fleet.stored(INGEST)
    assert subject.endswith(".append_batch.mine")
