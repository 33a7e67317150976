"""Exports and imports as files: everything is restored, repeatedly, and wrong lines are skipped."""

import io
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

import hivemem
from hivemem.lines import read_lines
from hivemem_contracts.limits import MESSAGE_BYTES

from .conftest import Deployment
from .hive import Agent

pytestmark = pytest.mark.asyncio(loop_scope="session")

PREFIX = "user:alice"
COUNT = 2_300


@pytest_asyncio.fixture(loop_scope="session")
async def hive(bot: Agent, deployment: Deployment) -> AsyncIterator[hivemem.Hive]:
    async with hivemem.connect(deployment.settings.nats_url, tenant=bot.tenant, agent="bot") as hive:
        yield hive


@pytest_asyncio.fixture(loop_scope="session")
async def elsewhere(deployment: Deployment) -> AsyncIterator[hivemem.Hive]:
    """A client with a new tenant."""
    tenant = deployment.agent().tenant
    async with hivemem.connect(deployment.settings.nats_url, tenant=tenant, agent="importer") as hive:
        yield hive


async def fill(hive: hivemem.Hive) -> None:
    """Put memories of all sizes, from a few bytes to most of a page, and some that an export has to leave out."""
    puts = [
        hivemem.PutMemory(
            namespace=PREFIX if number % 3 else f"{PREFIX}:é {number % 7}",
            key=f"k{number}",
            value={"number": number, "text": "🐝" * (number % 50), "none": None},
            metadata={"m": number},
        )
        for number in range(COUNT - 3)
    ]
    for start in range(0, len(puts), 1_000):
        await hive.memory.put_batch(puts=puts[start : start + 1_000])
    for size in (100_000, 300_000, 500_000):
        await hive.memory.put(namespace=PREFIX, key=f"large {size}", value="x" * size, importance=0.5)
    await hive.memory.put(namespace="user:alicex", key="k", value="not below it")
    await hive.memory.put(namespace=PREFIX, key="deleted", value=1)
    await hive.memory.delete(namespace=PREFIX, key="deleted")


def said(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the content of memories, without their namespaces."""
    return [{name: value for name, value in line.items() if name != "copied_from"} for line in lines]


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


async def test_what_is_exported_comes_back_with_an_import(
    hive: hivemem.Hive, elsewhere: hivemem.Hive, tmp_path: Path
) -> None:
    await fill(hive)
    steps: list[hivemem.Progress] = []
    first = tmp_path / "first.jsonl"
    exported = await hive.export_to(first, PREFIX, progress=steps.append)
    header, *lines = lines_of(first)
    assert header == {
        "hivemem": "memory",
        "schema": 1,
        "prefix": PREFIX,
        "as_of": exported.as_of.isoformat(timespec="microseconds").replace("+00:00", "Z"),
    }
    assert (exported.memories, exported.bytes) == (len(lines), first.stat().st_size) == (COUNT, first.stat().st_size)
    assert [step.fraction for step in steps] == sorted(step.fraction or 0 for step in steps)
    assert steps[-1] == hivemem.Progress(COUNT, exported.bytes, 1.0)
    assert names_in(tmp_path) == ["first.jsonl"]

    steps.clear()
    imported = await elsewhere.import_from(first, progress=steps.append)
    assert (imported.created, imported.memories, imported.problems) == (COUNT, COUNT, [])
    assert imported.through_line == COUNT + 1
    assert steps[-1] == hivemem.Progress(COUNT, exported.bytes, 1.0)
    second = tmp_path / "second.jsonl"
    await elsewhere.export_to(second, PREFIX)
    assert said(lines_of(second)[1:]) == said(lines)

    again = await elsewhere.import_from(str(second))
    assert (again.unchanged, again.memories) == (COUNT, COUNT)


async def test_an_export_streams_from_fleet_to_fleet(hive: hivemem.Hive, elsewhere: hivemem.Hive) -> None:
    for key in "abc":
        await hive.memory.put(namespace=PREFIX, key=key, value=key)
    imported = await elsewhere.import_from(hive.export(PREFIX))
    assert imported.created == 3
    assert (await elsewhere.memory.get(namespace=PREFIX, key="b")).value == "b"


async def test_an_export_is_as_of_one_moment(hive: hivemem.Hive) -> None:
    await hive.memory.put(namespace=PREFIX, key="k", value=1)
    moment = (await hive.memory.get(namespace=PREFIX, key="k")).updated_at
    await hive.memory.put(namespace=PREFIX, key="k", value=2)
    lines = [json.loads(line) async for line in hive.export(PREFIX, as_of=moment)]
    assert [line["value"] for line in lines[1:]] == [1]


async def test_nothing_to_export_is_a_header(hive: hivemem.Hive, elsewhere: hivemem.Hive) -> None:
    file = io.BytesIO()
    exported = await hive.export_to(file, PREFIX, progress=lambda _: None)
    assert (exported.memories, file.getvalue().count(b"\n")) == (0, 1)
    file.seek(0)
    assert (await elsewhere.import_from(file)).memories == 0


async def test_what_is_there_may_be_kept(hive: hivemem.Hive) -> None:
    await hive.memory.put(namespace=PREFIX, key="k", value="mine")
    lines = exported({"key": "k", "value": "theirs"}, {"key": "l", "value": "theirs"})
    kept = await hive.import_from(io.BytesIO(lines), existing="keep")
    assert (kept.kept, kept.created) == (1, 1)
    updated = await hive.import_from(io.BytesIO(lines))
    assert (updated.updated, updated.unchanged) == (1, 1)
    assert (await hive.memory.get(namespace=PREFIX, key="k")).value == "theirs"


async def test_lines_that_are_wrong_are_told_and_the_others_go_on(hive: hivemem.Hive) -> None:
    lines = exported(
        {"key": "a", "value": 1},
        {"key": "b"},
        {"key": "c", "value": 1, "importance": 7},
        "not JSON",
        "",
        {"namespace": "alice", "key": "d", "value": 1},
        {"key": "e", "value": "x" * 600_000},
        {"key": "f", "value": "x" * (MESSAGE_BYTES + 5)},
        {"key": "g", "value": 1, "valid_from": "2027-01-01T00:00:00Z", "valid_to": "2026-01-01T00:00:00Z"},
        {"key": "h", "value": 1},
    )
    imported = await hive.import_from(io.BytesIO(lines))
    assert (imported.created, imported.refused, imported.through_line) == (2, 7, 11)
    assert [(problem.context["line"], problem.name, problem.context["field"]) for problem in imported.problems] == [
        (3, "InvalidRequest", "value"),
        (4, "InvalidRequest", "importance"),
        (5, "InvalidRequest", "body"),
        (7, "InvalidRequest", "namespace"),
        (8, "TooLarge", "value"),
        (9, "TooLarge", "body"),
        (10, "InvalidRequest", "valid_to"),
    ]
    assert imported.problems[1].detail.startswith("line 4: importance: ")


@pytest.mark.parametrize(
    ("lines", "detail"),
    [
        (b"", "not an export of memories"),
        (b"{}\n", "not an export of memories"),
        (b"not JSON\n", "not an export of memories"),
        (b'[{"hivemem": "memory"}]\n', "not an export of memories"),
        (b'{"namespace": "user:a", "key": "k", "value": 1}\n', "not an export of memories"),
        (b'{"hivemem": "memory", "schema": 2}\n', "schema 2, this client reads 1"),
    ],
)
async def test_what_is_no_export_is_refused(hive: hivemem.Hive, lines: bytes, detail: str) -> None:
    with pytest.raises(hivemem.InvalidRequest, match=f"line 1: .*{detail}"):
        await hive.import_from(io.BytesIO(lines))


async def test_of_two_lines_with_one_key_the_later_one_counts(hive: hivemem.Hive) -> None:
    many = [{"key": f"k{number % 1_100}", "value": number} for number in range(2_200)]
    imported = await hive.import_from(io.BytesIO(exported(*many)))
    assert (imported.created, imported.updated) == (1_100, 1_100)
    assert (await hive.memory.get(namespace=PREFIX, key="k7")).value == 1_107


async def test_an_import_that_stopped_half_way_says_where_to_go_on(
    hive: hivemem.Hive, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = exported(*[{"key": f"k{number}", "value": number} for number in range(2_500)])
    request, left = hivemem.Hive.request, [1, 2]

    async def fails_at_last(self: hivemem.Hive, operation: str, body: Any) -> Any:
        if not left:
            raise hivemem.Unavailable("no worker")
        left.pop()
        return await request(self, operation, body)

    monkeypatch.setattr(hivemem.Hive, "request", fails_at_last)
    with pytest.raises(hivemem.Unavailable) as stopped:
        await hive.import_from(io.BytesIO(lines))
    monkeypatch.undo()
    assert stopped.value.context["through_line"] == 2_001
    rest = await hive.import_from(io.BytesIO(lines), after_line=2_001)
    assert (rest.created, rest.through_line) == (500, 2_501)


async def test_a_batch_that_grows_too_large_is_sent_in_parts(hive: hivemem.Hive) -> None:
    """`1e9` is written as `1000000000.0`, so a batch that fits when it is read may be too large when it is sent."""
    numbers = ",".join(["1e9"] * 150)
    lines = exported(*(f'{{"namespace":"{PREFIX}","key":"{key}","value":[{numbers}]}}' for key in range(1_500)))
    imported = await hive.import_from(io.BytesIO(lines))
    assert (imported.created, imported.through_line) == (1_500, 1_501)


async def test_a_file_that_could_not_be_written_is_not_there(
    hive: hivemem.Hive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "export.jsonl"
    target.write_text("the one before")

    async def fails(*_: object, **__: object) -> None:
        raise hivemem.Unavailable("no worker")

    with monkeypatch.context() as patch:
        patch.setattr(hivemem.Hive, "send", fails)
        with pytest.raises(hivemem.Unavailable):
            await hive.export_to(target, PREFIX)
    assert (names_in(tmp_path), target.read_text()) == (["export.jsonl"], "the one before")
    with pytest.raises(FileNotFoundError):
        await hive.export_to(tmp_path / "nowhere" / "export.jsonl", PREFIX)
    with pytest.raises(FileNotFoundError):
        await hive.import_from(tmp_path / "nowhere")


async def test_a_line_without_an_end_is_not_kept_in_memory() -> None:
    file = io.BytesIO(b"a\n" + b"x" * (5 * MESSAGE_BYTES) + b"\r\nb")
    async with read_lines(file) as (lines, total):
        found = [line async for line in lines]
    assert total is None
    assert [(line.number, line.whole, line.end) for line in found] == [
        (1, True, 2),
        (2, False, 5 * MESSAGE_BYTES + 4),
        (3, True, 5 * MESSAGE_BYTES + 5),
    ]
    assert max(len(line.text) for line in found) <= MESSAGE_BYTES + 2


def exported(*lines: dict[str, Any] | str) -> bytes:
    """Write a file with these lines, in the namespace of `PREFIX` unless they name another."""
    header = json.dumps({"hivemem": "memory", "schema": 1, "prefix": PREFIX, "as_of": "2026-01-31T09:30:00.000000Z"})
    texts = [line if isinstance(line, str) else json.dumps({"namespace": PREFIX, **line}) for line in lines]
    return ("\n".join([header, *texts]) + "\n").encode()
