"""`hivemem <service> <operation>` runs every operation of the registry from a command line."""

import shlex
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pytest

import hivemem
from hivemem.cli.services import OWN
from hivemem_contracts.catalog import SERVICES
from hivemem_contracts.operations import AnyOperation
from hivemem_contracts.sessions.replies import EventPage, SessionView, StateSet
from hivemem_contracts.streams import INGEST
from hivemem_testing.contract import Server

from .commands import invoke, invoke_json
from .fleet import Fleet

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
        (("sessions", "append", "--session-id", "s1", "--event", "hello"), "quotes around"),
        (("sessions", "append", "--session-id", "s1", "--event", "{"), "not JSON"),
        (("sessions", "append", "--session-id", "s1", "--event", "@/no/such/file"), "cannot be read"),
        (("sessions", "sing"), "sing"),
        (("singing",), "singing"),
        (("sesions", "list"), "Did you mean 'sessions'"),
        (("sessions", "list", "--aftr", "x"), "No such option: --aftr"),
        (("sessions", "create", "--sesion-id", "x", "a", "b"), "Did you mean --session-id?"),
        (("sessions", "list", "--tenant", "x"), "hivemem --tenant … sessions list"),
        (("--tenat", "x"), "Did you mean --tenant?"),
        (("sessions", "list", "--limit", "many"), "--limit"),
    ],
)
async def test_a_wrong_command_line_is_exit_code_2(words: tuple[str, ...], told: str) -> None:
    result = await invoke("nats://127.0.0.1:1", *words)

    assert result.exit_code == 2
    assert told in result.stderr


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

    view = await invoke(shared_server.url, "sessions", "get", "--session-id", "s1")
    page = await invoke(shared_server.url, "sessions", "events", "s1", "--cursor", "this", "--author", "it's me")

    assert "user_id      alice" in view.stdout
    assert "[b]not bold[/b]" in view.stdout
    assert "2025-01-02 03:04:05" in page.stdout
    more = page.stdout.rpartition("more: ")[2]
    assert shlex.split(more)[:3] == ["hivemem", "--url", shared_server.url]
    assert more.endswith("""sessions events s1 --author 'it'"'"'s me' --cursor next\n""")


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
    assert "sequence    2" in shown.stdout
    assert len(await fleet.stored(INGEST)) == 2
    assert fleet.asked == []


async def test_a_durable_command_without_a_route_of_its_own_can_be_given_one(
    shared_server: Server, fleet: Fleet
) -> None:
    appends = '[{"session_id": "s1", "event": {"type": "note"}}]'

    await invoke(shared_server.url, "sessions", "append-batch", "--appends", appends, "--durable", "--route", "mine")

    ((subject, _),) = await fleet.stored(INGEST)
    assert subject.endswith(".append_batch.mine")
