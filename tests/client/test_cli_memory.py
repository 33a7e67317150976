"""`hivemem memory …` takes fields by position, prints readable tables, exports and imports."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

import hivemem
from hivemem.cli.differences import TOO_LARGE
from hivemem_contracts.memory.models import Difference
from hivemem_contracts.memory.replies import (
    AuditPage,
    AuditVerified,
    ExportPage,
    ImportOutcome,
    MemoriesImported,
    MemoryChange,
    MemoryCount,
    MemoryPage,
    MemoryWritten,
    NamespaceDiff,
    NamespacePage,
    VersionPage,
)
from hivemem_testing.contract import Server

from .commands import in_a_terminal, invoke, invoke_json, on_screen
from .fleet import Asked, Fleet

MOMENT = datetime(2026, 1, 31, 9, 30, tzinfo=UTC)
WRITTEN = MemoryWritten(namespace="user:alice", key="prefs", version=1, created=True, duplicate=False)
LINE = hivemem.ImportedMemory(namespace="user:alice", key="prefs", value={"a": 1})


def version(number: int, **fields: Any) -> hivemem.MemoryVersion:
    made: dict[str, Any] = {
        "namespace": "user:alice",
        "key": "prefs",
        "value": {"theme": "dark", "number": number},
        "memory_type": "semantic",
        "version": number,
        "deleted": False,
        "metadata": {},
        "digest": f"{number}" * 64,
        "created_by": "planner",
        "updated_by": "planner",
        "created_at": MOMENT,
        "updated_at": MOMENT + timedelta(minutes=number),
        "operation": "put",
        "request_id": f"01ARZ3NDEKTSV4RRFFQ69G5FA{number}",
        **fields,
    }
    return hivemem.MemoryVersion.model_validate(made)


async def test_the_audit_is_verified_to_its_end(shared_server: Server, fleet: Fleet) -> None:
    parts = [AuditVerified(ok=True, checked=500, cursor="half"), AuditVerified(ok=True, checked=20, memories=3)]
    broken = AuditVerified(ok=False, checked=7, broken_at=8, problem="the hash differs")
    answers = iter([*parts, broken])
    fleet.answers["memory.audit_verify"] = lambda _: next(answers)

    whole = await invoke_json(shared_server.url, "memory", "audit-verify")
    wrong = await invoke(shared_server.url, "memory", "audit-verify", "--cursor", "later")

    assert (whole["checked"], whole["memories"]) == (520, 3)
    assert [asked.body for asked in fleet.asked] == [{}, {"cursor": "half"}, {"cursor": "later"}]
    assert wrong.exit_code == 1
    assert "the hash differs" in wrong.stdout


def export_of(*lines: hivemem.ImportedMemory) -> ExportPage:
    return ExportPage(as_of=MOMENT, items=list(lines), cursor=None)


@pytest.mark.parametrize(
    "words",
    [
        ("user:alice", "prefs", '{"a": 1}'),
        ("--key", "prefs", "user:alice", '{"a": 1}'),
        ('--value={"a": 1}', "--namespace", "user:alice", "prefs"),
        ("user:alice", "--json", "prefs", "--", '{"a": 1}'),
        ("--namespace", "user:alice", "--key", "prefs", "--value", '{"a": 1}'),
    ],
)
async def test_what_is_required_needs_no_name(shared_server: Server, fleet: Fleet, words: tuple[str, ...]) -> None:
    fleet.answers["memory.put"] = lambda _: WRITTEN

    result = await invoke(shared_server.url, "memory", "put", *words)

    assert result.exit_code == 0, result.output
    assert fleet.asked[0].body == {"namespace": "user:alice", "key": "prefs", "value": {"a": 1}}


async def test_values_that_look_like_options_stand_behind_two_dashes(shared_server: Server, fleet: Fleet) -> None:
    fleet.answers["memory.put"] = lambda _: WRITTEN

    await invoke(shared_server.url, "memory", "put", "user:alice", "prefs", "-5")
    await invoke(shared_server.url, "memory", "put", "--expect-version", "0", "--", "user:alice", "--key", "-5")

    assert [asked.body["value"] for asked in fleet.asked] == [-5, -5]
    assert fleet.asked[1].body["key"] == "--key"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("memory", "put", "user:alice", "prefs"), "--value"),
        (("memory", "get", "user:alice", "prefs", "too", "many"), "too many"),
        (("memory", "get", "user:alice", "prefs", "--nonsense"), "--nonsense"),
        (("memory", "get", "user:alice", "--key"), "--key"),
        (("memory", "import"), "file"),
        (("memory", "import", "/no/such/file"), "cannot be read"),
        (("memory", "export", "user", "-o", "/no/such/folder/file"), "cannot be written"),
        (("memory", "export", "user", "--as-of", "yesterday"), "not a time"),
        (("memory", "import", "-", "--existing", "ask"), "ask"),
    ],
)
async def test_a_wrong_command_line_is_exit_code_2(
    shared_server: Server, fleet: Fleet, words: tuple[str, ...], told: str
) -> None:
    result = await invoke(shared_server.url, *words)

    assert result.exit_code == 2
    assert told in result.stderr


async def test_nested_fields_and_the_words_of_the_wire(shared_server: Server, fleet: Fleet) -> None:
    fleet.answers["memory.put"] = lambda _: WRITTEN
    fleet.answers["memory.diff"] = lambda _: NamespaceDiff(items=[], cursor=None)
    claim = '{"namespace": "user:alice", "token": 3}'

    await invoke(shared_server.url, "memory", "put", "user:alice", "prefs", "1", "--lease", claim)
    await invoke(shared_server.url, "memory", "diff", "user", "2026-01-31T09:30:00Z", "--to", "2026-02-01T00:00:00Z")

    put, diff = fleet.asked
    assert put.body["lease"] == {"namespace": "user:alice", "token": 3}
    assert diff.body == {
        "namespace": "user",
        "from": "2026-01-31T09:30:00.000000Z",
        "to": "2026-02-01T00:00:00.000000Z",
    }


async def test_an_explicit_null_takes_away(shared_server: Server, fleet: Fleet) -> None:
    fleet.answers["memory.put"] = lambda _: WRITTEN
    nothing = ("--importance", "null", "--expires-at", "null", "--source", "null")

    await invoke(shared_server.url, "memory", "put", "user:alice", "prefs", "1", *nothing)
    await invoke(shared_server.url, "memory", "put", "user:alice", "prefs", "1", "--importance", "0.5")
    wrong = await invoke(shared_server.url, "memory", "put", "user:alice", "prefs", "1", "--importance", "much")

    null, half = (asked.body for asked in fleet.asked)
    assert (null["importance"], null["expires_at"], null["source"]) == (None, None, None)
    assert half == {"namespace": "user:alice", "key": "prefs", "value": 1, "importance": 0.5}
    assert wrong.exit_code == 2


async def test_a_history_is_a_readable_table_in_a_narrow_window(shared_server: Server, fleet: Fleet) -> None:
    versions = [version(3, deleted=True, value=None, operation="delete"), version(2), version(1)]
    fleet.answers["memory.history"] = lambda _: VersionPage(items=versions, cursor=None)

    shown = await on_screen(shared_server.url, "memory", "history", "user:alice", "prefs")

    head, _, first, second, *_ = shown.splitlines()
    assert head.split()[:3] == ["version", "operation", "value"]
    assert first.split()[:2] == ["3", "delete"]
    assert '{"theme":"dark","number":2}' in second
    assert "left out: " in shown
    assert max(map(cell_len, shown.splitlines())) <= 80


async def test_a_wide_window_leaves_nothing_out(shared_server: Server, fleet: Fleet) -> None:
    fleet.answers["memory.list"] = lambda _: MemoryPage(items=[version(1), version(2)], cursor=None)

    shown = await on_screen(shared_server.url, "memory", "list", "user", columns=250)

    assert "left out" not in shown
    assert "1" * 64 in shown


async def test_ids_stay_whole_while_other_columns_can_go(shared_server: Server, fleet: Fleet) -> None:
    short = [version(1, key=f"key-{number}", value="全角" * 40) for number in range(5)]
    long = version(1, namespace=f"user:alice:{'x' * 30}", key="k" * 30)
    fleet.answers["memory.list"] = lambda _: MemoryPage(items=[*short, long], cursor=None)

    shown = {width: await on_screen(shared_server.url, "memory", "list", "user", columns=width) for width in (80, 75)}

    for width, text in shown.items():
        lines = text.splitlines()
        assert all(line.startswith(f"user:alice  key-{number}  全角") for number, line in enumerate(lines[2:7]))
        assert lines[7].startswith(f"{long.namespace}  {long.key}")
        assert max(map(cell_len, lines)) <= width


async def test_namespaces_are_lines(shared_server: Server, fleet: Fleet) -> None:
    fleet.answers["memory.namespaces"] = lambda _: NamespacePage(items=["user:alice", "user:" + "b" * 250], cursor="c1")

    piped = await invoke(shared_server.url, "memory", "namespaces", "--prefix", "user")
    shown = await on_screen(shared_server.url, "memory", "namespaces", "--prefix", "user")

    assert piped.stdout.splitlines() == shown.splitlines()[:2] == ["user:alice", "user:" + "b" * 250]
    assert "--cursor c1" in shown
    fleet.answers["memory.namespaces"] = lambda _: NamespacePage(items=[], cursor=None)
    assert await on_screen(shared_server.url, "memory", "namespaces") == "none\n"


async def test_differences_are_lines(shared_server: Server, fleet: Fleet) -> None:
    diff = [
        Difference(path="/a", change="changed", before=1, after=None),
        Difference(path="/b", change="added", after=[1]),
        Difference(path="", change="removed", before="text"),
    ]
    fleet.answers["memory.history"] = lambda _: VersionPage(items=[version(2, diff=diff), version(1)], cursor=None)

    lines = (await on_screen(shared_server.url, "memory", "history", "user:alice", "prefs", "--diff")).splitlines()

    assert "value" not in lines[0]
    assert lines[2].split()[:2] == ["2", "put"]
    assert lines[3:6] == ["  ~ /a 1 → null", "  + /b [1]", '  - "text"']
    assert lines[6].split()[:2] == ["1", "put"]


async def test_what_two_moments_differ_in_is_lines_too(shared_server: Server, fleet: Fleet) -> None:
    change = MemoryChange(namespace="user:alice", key="", change="changed", diff=[])
    items = [
        change.model_copy(update={"key": "new", "change": "added", "after": version(1, value="here")}),
        change.model_copy(update={"key": "old", "change": "removed", "before": version(1, value=None)}),
        change.model_copy(update={"key": "huge", "values_omitted": True}),
    ]
    fleet.answers["memory.diff"] = lambda _: NamespaceDiff(items=items, cursor=None)

    words = ("memory", "diff", "user:alice", "2026-01-31T09:30:00Z", "2026-02-01T00:00:00Z")
    lines = (await on_screen(shared_server.url, *words)).splitlines()

    assert lines[2:] == [
        "user:alice  new   added",
        '  + "here"',
        "user:alice  old   removed",
        "  - null",
        "user:alice  huge  changed",
        f"  {TOO_LARGE}",
    ]


async def test_a_list_with_a_note_has_both(shared_server: Server, fleet: Fleet) -> None:
    fleet.answers["memory.audit"] = lambda _: AuditPage(items=[], cursor=None, behind=3)

    shown = await on_screen(shared_server.url, "memory", "audit")
    piped = await invoke(shared_server.url, "memory", "audit")

    assert shown == "none\nbehind  3\n"
    assert (piped.stdout, piped.stderr) == ("", "behind: 3\n")


async def test_an_export_goes_to_standard_output_and_its_summary_elsewhere(shared_server: Server, fleet: Fleet) -> None:
    fleet.answers["memory.export"] = lambda _: export_of(LINE)

    plain = await invoke(shared_server.url, "memory", "export", "user:alice")
    told = await invoke(
        shared_server.url, "memory", "export", "user:alice", "--json", "--as-of", "2026-01-31T09:30:00Z"
    )

    header, line = [json.loads(line) for line in plain.stdout.splitlines()]
    assert (header["prefix"], line) == ("user:alice", {"namespace": "user:alice", "key": "prefs", "value": {"a": 1}})
    assert "exported 1 memory as of 2026-01-31T09:30:00.000000Z" in plain.stderr
    assert json.loads(told.stderr) == {
        "prefix": "user:alice",
        "as_of": "2026-01-31T09:30:00.000000Z",
        "memories": 1,
        "bytes": len(plain.stdout.encode()),
    }
    assert fleet.asked[-1].body["as_of"] == "2026-01-31T09:30:00.000000Z"


async def test_an_export_into_a_file(shared_server: Server, fleet: Fleet, tmp_path: Path) -> None:
    fleet.answers["memory.export"] = lambda _: export_of(LINE, LINE)
    path = tmp_path / "export.jsonl"

    document = await invoke_json(shared_server.url, "memory", "export", "user:alice", "-o", str(path))

    assert document["memories"] == 2
    assert len(path.read_text().splitlines()) == 3


def imported(asked: Asked) -> MemoriesImported:
    """Answer an import in which every second line is refused."""
    outcomes = [
        ImportOutcome(namespace="user:alice", key="prefs", version=1, outcome="created")
        if number % 2 == 0
        else ImportOutcome(
            namespace="user:alice",
            key="prefs",
            outcome="refused",
            error=hivemem.InvalidRequest("expires_at: it is past", field="expires_at").body()["error"],
        )
        for number in range(len(asked.body["items"]))
    ]
    return MemoriesImported(results=outcomes)


def file_of(count: int) -> str:
    header = json.dumps({"hivemem": "memory", "schema": 1, "prefix": "user", "as_of": "2026-01-31T09:30:00Z"})
    return "\n".join([header, *[LINE.model_dump_json(exclude_defaults=True)] * count]) + "\n"


async def test_an_import_tells_what_became_of_its_lines(shared_server: Server, fleet: Fleet) -> None:
    fleet.answers["memory.import"] = imported

    good = await invoke(shared_server.url, "memory", "import", "-", stdin=file_of(1))
    bad = await invoke(shared_server.url, "memory", "import", "-", "--existing", "keep", stdin=file_of(210))
    document = await invoke_json(shared_server.url, "memory", "import", "-", stdin=file_of(2))

    assert (good.exit_code, good.stdout) == (0, "imported 1 memory: 1 created\n")
    assert (bad.exit_code, bad.stdout) == (1, "imported 210 memories: 105 created, 105 refused\n")
    assert "InvalidRequest: line 3: expires_at: it is past\n" in bad.stderr
    assert "and 5 more" in bad.stderr
    assert fleet.asked[1].body["existing"] == "keep"
    assert (document["created"], document["refused"], document["through_line"]) == (1, 1, 3)
    assert document["problems"][0]["context"] == {"field": "expires_at", "line": 3}


async def test_an_import_that_is_interrupted_says_where_to_go_on(shared_server: Server, fleet: Fleet) -> None:
    def once(asked: Asked) -> MemoriesImported | hivemem.HiveError:
        return imported(asked) if len(fleet.asked) == 1 else hivemem.Unavailable("away", retry_after_ms=60_000)

    fleet.answers["memory.import"] = once

    stopped = await invoke(shared_server.url, "--timeout", "0.5", "memory", "import", "-", stdin=file_of(1_500))

    assert stopped.exit_code == 1
    assert "memory import - --after-line 1001" in stopped.stderr
    fleet.asked.clear()
    await invoke(shared_server.url, "memory", "import", "-", "--after-line", "1001", stdin=file_of(1_500))
    assert len(fleet.asked[0].body["items"]) == 500


async def test_a_terminal_gets_a_bar(shared_server: Server, fleet: Fleet, tmp_path: Path) -> None:
    fleet.answers["memory.export"] = lambda _: export_of(LINE)
    fleet.answers["memory.count"] = lambda _: MemoryCount(count=1)

    shown = await in_a_terminal(shared_server.url, "memory", "export", "user", "-o", str(tmp_path / "file"))

    assert "exporting" in shown
    assert "━" in shown
    assert "exported 1 memory" in shown
