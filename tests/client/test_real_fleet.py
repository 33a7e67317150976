"""The client and the command against the fleet as `hivemem up` runs it."""

import asyncio
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

import hivemem
from hivemem.cli.app import app
from hivemem.cli.examples import EXAMPLES as IN_HELP

from .commands import WIDE, invoke, invoke_json
from .fleet import eventually

NEEDS_MORE = re.compile(r"\$|hive://|^(up|bench)\b|^dead (show|replay|discard) \d|^tail (?!.*--count)")
"""Examples of help that need an id or a tenant of the reader's, or that do not end."""
FILES = {
    "event.json": '{"type": "note", "content": "from a file"}',
    "appends.json": '[{"session_id": "trip-1", "event": {"type": "note"}}]',
    "puts.json": '[{"namespace": "user:alice", "key": "name", "value": "Alice"}]',
    "deletes.json": '[{"namespace": "user:bob:travel", "key": "diet"}]',
    "chat.json": '{"id": "chat", "type": "message", "max_messages": 20, "key": "user:{{ user_id }}"}',
    "machine.json": '{"initial": "draft", "states": ["draft", "done"], "transitions": []}',
    "chat.yaml": "{id: chat, type: token, key: c, max_tokens: 999}",
    "trace.json": (
        '[{"type": "agent", "agent_id": "twin", "overrides": {}, "metadata": {}, "status": "active", "version": 1, '
        '"created_by": "bot", "created_at": "2026-01-31T09:00:00Z", "updated_at": "2026-01-31T09:00:00Z"}]'
    ),
    "tour.json": '{"steps": [{"id": "look", "save": "ferries"}, {"id": "book"}]}',
    "trip.yaml": "name: trip\nsteps:\n  - id: ask\n    wait: {signal: approved}\n  - id: book\n",
    "report.txt": "a report",
    "folder/pages/hello.txt": "hello",
    "files.json": (
        '[{"path": "hello.txt", "size": 5, '
        '"sha256": "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"}]'
    ),
}


async def test_what_is_appended_comes_back_on_the_feed_with_its_cause(url: str) -> None:
    async with hivemem.connect(url, tenant="acme", agent="bot") as hive:
        session = await hive.sessions.create(app_name="demo", user_id="alice")
        async with hive.changes(hivemem.prefix("event", session.session_id)) as feed:
            once = hive.with_options(message_id="m1")
            first = await once.sessions.append(session_id=session.session_id, event=hivemem.NewEvent(type="note"))
            again = await once.sessions.append(session_id=session.session_id, event=hivemem.NewEvent(type="note"))
            async with asyncio.timeout(10):
                change = await anext(feed)

    assert (first.duplicate, again.duplicate) == (False, True)
    assert (change.version, change.cause, change.actor) == (first.sequence, "m1", "bot")


async def test_a_pipeline_of_commands_is_carried_out_in_order(url: str) -> None:
    async with hivemem.connect(url, tenant="acme") as hive:
        session = await hive.sessions.create(app_name="demo", user_id="alice")
        session_id = session.session_id
        async with hive.changes(hivemem.prefix("event", session_id)) as feed, hive.pipeline() as pipe:
            for number in range(100):
                event = hivemem.NewEvent(type="count", content=number)
                await pipe.publish(hive.sessions.append, session_id=session_id, event=event)
            async with asyncio.timeout(30):
                contents = [_content(await anext(feed)) for _ in range(100)]

    assert contents == list(range(100))


async def test_the_work_of_a_task_is_found_in_the_audit(url: str) -> None:
    async with await hivemem.connect(url, agent="bot") as hive:
        session = await hive.sessions.create(app_name="travel", user_id="cleo")
        event = await hive.sessions.append(session_id=session.session_id, event=hivemem.NewEvent(type="task"))
        source = hivemem.Source(session_id=session.session_id, event_id=event.event_id, task_id="ferry")
        await hive.memory.put(namespace="user:cleo:travel", key="ferry", value="07:00", source=source)
        await hive.sessions.delete(session_id=session.session_id)

        async def audited() -> bool:
            page = await hive.memory.audit(task_id="ferry")
            return [(entry.key, entry.to_version) for entry in page.items] == [("ferry", 2), ("ferry", 1)]

        await eventually(audited, "the write, and that its session is gone")
        memory = await hive.memory.get(namespace="user:cleo:travel", key="ferry")
        assert memory.source is not None
        assert (memory.source.session_id, memory.source.task_id) == (None, "ferry")


def _content(change: hivemem.Change) -> object:
    assert isinstance(change.value, hivemem.Event)
    return change.value.content


async def test_a_command_that_fails_is_a_dead_letter_that_can_be_replayed(url: str) -> None:
    async with hivemem.connect(url, tenant="acme", agent="bot") as hive:
        async with hive.changes("event") as feed:
            receipt = await hive.publish(
                hive.sessions.append, session_id="later", event=hivemem.NewEvent(type="note", content="early")
            )
            letter = await first_dead(hive)
            await hive.sessions.create(session_id="later", app_name="demo", user_id="alice")
            replayed = await hive.dead.replay(letter.sequence)
            async with asyncio.timeout(10):
                change = await anext(feed)
        left = await hive.dead.list()

    assert type(letter.error) is hivemem.NotFound
    assert letter.message_id == receipt.message_id
    assert change.cause == receipt.message_id == replayed.message_id
    assert left.items == []


async def first_dead(hive: hivemem.Hive) -> hivemem.DeadLetter:
    found: list[hivemem.DeadLetter] = []

    async def there() -> bool:
        found.extend((await hive.dead.list()).items)
        return bool(found)

    await eventually(there, "a dead letter")
    return found[0]


async def test_the_doctor_finds_nothing(url: str) -> None:
    result = await invoke(url, "doctor")

    assert result.exit_code == 0, result.output
    assert "✗" not in result.stdout


async def test_the_command_shows_what_the_client_wrote(url: str) -> None:
    created = await invoke_json(url, "sessions", "create", "--app-name", "demo", "--user-id", "bob")
    await invoke_json(
        url, "sessions", "append", "--session-id", created["session_id"], "--event", '{"type": "note", "content": 1}'
    )
    shown = await invoke(url, "sessions", "events", "--session-id", created["session_id"])
    listed = await invoke_json(url, "sessions", "list", "--user-id", "bob")

    assert "note" in shown.stdout
    assert [item["session_id"] for item in listed["items"]] == [created["session_id"]]


async def test_the_benchmark_runs_both_ways(url: str) -> None:
    for more in ((), ("--durable",)):
        document = await invoke_json(url, "bench", "--sessions", "4", "--seconds", "0.5", *more)
        assert document["appends"] > 0
    left = await invoke_json(url, "sessions", "list", "--app-name", "hivemem-bench")

    assert left["items"] == []


def test_the_examples_of_help_work_when_pasted(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, content in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    monkeypatch.chdir(tmp_path)
    runner = CliRunner(env={**WIDE, "HIVEMEM_URL": url, "HIVEMEM_TENANT": "reader"})

    for example in (example for examples in IN_HELP.values() for example in examples):
        words = shlex.split(example)
        # With --help, a command checks the names of its options and does nothing else.
        result = runner.invoke(app, [*words, "--help"] if NEEDS_MORE.search(example) else words)

        asks = result.exit_code == 2 and "confirm it with --yes" in result.stderr
        assert result.exit_code == 0 or asks, f"hivemem {example}\n{result.output}"
