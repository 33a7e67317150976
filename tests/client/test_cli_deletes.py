"""Commands that delete for good ask first, and say what will be lost."""

from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from hivemem_contracts.artifacts.models import Artifact
from hivemem_contracts.artifacts.replies import GarbageCollected
from hivemem_contracts.memory.replies import MemoryCount
from hivemem_contracts.sessions.replies import SessionDeleted, SessionView
from hivemem_contracts.streams import DEAD_BODY_OMITTED
from hivemem_testing.contract import Server

from .commands import in_a_terminal, invoke
from .fleet import Asked, Fleet
from .test_cli_dead import GONE
from .test_cli_operations import SESSION

MOMENT = datetime(2025, 1, 2, tzinfo=UTC)


def session(fleet: Fleet) -> None:
    fleet.answers["get"] = lambda _: SessionView(session=SESSION, events=[])
    fleet.answers["delete"] = lambda _: SessionDeleted(session_id="s1", revision=3, deleted_at=MOMENT)


@pytest.mark.parametrize(
    "words",
    [
        ("sessions", "delete", "s1"),
        ("memory", "erase", "user:alice"),
        ("artifacts", "delete", "s1", "report.txt"),
        ("artifacts", "gc"),
        ("vectors", "delete", "v1"),
        ("dead", "discard", "1"),
    ],
)
async def test_without_a_terminal_nothing_is_deleted_unless_confirmed(words: tuple[str, ...]) -> None:
    result = await invoke("nats://127.0.0.1:1", *words)

    assert result.exit_code == 2
    assert "--yes" in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("typed", ["n\n", "\n", "\x04"])
async def test_any_answer_but_yes_deletes_nothing(shared_server: Server, fleet: Fleet, typed: str) -> None:
    session(fleet)

    shown = await in_a_terminal(shared_server.url, "sessions", "delete", "s1", typed=typed, code=1)

    assert "Session 's1' goes, with 1 event and its state. This cannot be undone. Continue? [y/N]" in shown
    assert "nothing was deleted" in shown
    assert len(fleet.asked) == 1


async def test_a_yes_deletes(shared_server: Server, fleet: Fleet) -> None:
    session(fleet)

    await in_a_terminal(shared_server.url, "sessions", "delete", "s1", typed="y\n")
    await invoke(shared_server.url, "sessions", "delete", "s1", "--yes")

    subjects = [asked.subject.rpartition(".")[2] for asked in fleet.asked]
    assert subjects == ["get", "delete", "delete"]


def file_version(version: int) -> Artifact:
    fields: dict[str, Any] = {"artifact_id": "a", "session_id": "s1", "name": "report.txt", "version": version}
    fields |= {"size": 600, "sha256": "0" * 64, "content_type": "text/plain", "metadata": {}}
    return Artifact(**fields, url="hive://acme/s1/report.txt", created_by="bot", created_at=MOMENT)


async def test_the_question_counts_what_will_go(shared_server: Server, fleet: Fleet) -> None:
    versions = [file_version(1).model_dump(mode="json"), file_version(2).model_dump(mode="json")]
    fleet.answers["memory.count"] = lambda _: MemoryCount(count=1_200)
    fleet.answers["artifacts.versions"] = lambda _: orjson.dumps({"items": versions, "cursor": None})
    await fleet.bury("acme", GONE)

    async def asked(*words: str) -> str:
        shown = await in_a_terminal(shared_server.url, *words, typed="n\n", code=1)
        return shown.partition(" This cannot be undone.")[0].rpartition("\n")[2]

    assert await asked("memory", "erase", "user:a") == "Everything in and below user:a goes: 1,200 memories, each " + (
        "with all its versions."
    )
    assert await asked("artifacts", "delete", "s1", "report.txt") == (
        "File 'report.txt' of session 's1' goes: 2 versions, 1,200 bytes."
    )
    assert "sessions.append, NotFound: there is no session s1" in await asked("dead", "discard", "--all")


async def test_unused_bytes_are_counted_then_deleted_in_as_many_requests_as_it_takes(
    shared_server: Server, fleet: Fleet
) -> None:
    def collected(asked: Asked) -> GarbageCollected:
        done = len(fleet.asked) > 2
        return GarbageCollected(dry_run=asked.body.get("dry_run", False), removed=2, bytes=10, kept=1, done=done)

    fleet.answers["artifacts.gc"] = collected

    shown = await in_a_terminal(shared_server.url, "--json", "artifacts", "gc", typed="y\n")

    assert "At least 2 unused blobs of 10 bytes will go." in shown
    assert [asked.body.get("dry_run", False) for asked in fleet.asked] == [True, False, False]
    assert '"removed":4' in shown


async def test_all_dead_letters_are_replayed_and_refused_ones_told(shared_server: Server, fleet: Fleet) -> None:
    await fleet.bury("acme", GONE)
    await fleet.bury("acme", GONE, **{DEAD_BODY_OMITTED: "9000000"})
    await fleet.bury("acme", GONE)

    result = await invoke(shared_server.url, "dead", "replay", "--all")

    assert result.exit_code == 1
    assert "dead letter 1 is command 1 now" in result.stdout
    assert "dead letter 3 is command 2 now" in result.stdout
    assert "too large to be kept" in result.stderr


@pytest.mark.parametrize("words", [(), ("1", "--all")])
async def test_dead_letters_are_chosen_by_number_or_all(words: tuple[str, ...]) -> None:
    result = await invoke("nats://127.0.0.1:1", "dead", "replay", *words)

    assert result.exit_code == 2
    assert "--all" in result.stderr
