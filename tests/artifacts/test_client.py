"""The client saves whole files from any source of bytes, and reads them into any sink."""

import asyncio
import os
from collections.abc import AsyncIterator
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

import hivemem
from hivemem import downloading
from hivemem.connection import Connection
from hivemem_contracts.limits import ARTIFACT_CHUNK_BYTES as CHUNK

from .conftest import Deployment
from .hive import Agent

pytestmark = pytest.mark.asyncio(loop_scope="session")

LARGE = os.urandom(5 * CHUNK + 321)
SMALL = b"small"
SIZES = (0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK)


def files_in(folder: Path) -> set[Path]:
    return set(folder.iterdir())


async def pieces_of(data: bytes, step: int) -> AsyncIterator[bytes]:
    for start in range(0, len(data), step):
        yield data[start : start + step]


class Unseekable(BytesIO):
    def seekable(self) -> bool:
        return False


def as_bytes(data: bytes, folder: Path) -> Any:
    return data


def as_view(data: bytes, folder: Path) -> Any:
    return memoryview(bytearray(data))


def as_path(data: bytes, folder: Path) -> Any:
    path = folder / "source"
    path.write_bytes(data)
    return path


def as_text_path(data: bytes, folder: Path) -> Any:
    return str(as_path(data, folder))


def as_file(data: bytes, folder: Path) -> Any:
    file = BytesIO(b"skipped" + data)
    file.seek(7)
    return file


def as_pipe(data: bytes, folder: Path) -> Any:
    return Unseekable(data)


def as_iterator(data: bytes, folder: Path) -> Any:
    return pieces_of(data, 100_003)


SOURCES = (as_bytes, as_view, as_path, as_text_path, as_file, as_pipe, as_iterator)


@pytest.mark.parametrize("data", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("source", SOURCES)
async def test_any_source_is_uploaded(hive: hivemem.Hive, tmp_path: Path, source: Any, data: bytes) -> None:
    seen: list[tuple[int, int | None]] = []
    artifact = await hive.artifacts.upload(
        "s1",
        "a.bin",
        source(data, tmp_path),
        metadata={"n": 1},
        progress=lambda done, total: seen.append((done, total)),
    )
    assert (artifact.version, artifact.size, artifact.sha256) == (1, len(data), sha256(data).hexdigest())
    assert artifact.metadata == {"n": 1}
    assert seen[-1] == (len(data), len(data))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert await hive.artifacts.read(artifact.url) == data


@pytest.mark.parametrize("size", SIZES)
async def test_every_size_comes_back(hive: hivemem.Hive, tmp_path: Path, size: int) -> None:
    data = LARGE[:size]
    for source in (data, pieces_of(data, 70_001)):
        artifact = await hive.artifacts.upload("s1", "a", source)
        assert await hive.artifacts.read("s1", "a") == data
    pieces = [piece async for piece in hive.artifacts.stream("s1", "a")]
    assert b"".join(pieces) == data
    path = tmp_path / "out"
    assert await hive.artifacts.download("s1", "a", to=path) == artifact
    assert path.read_bytes() == data
    assert files_in(tmp_path) == {path}
    file = BytesIO()
    await hive.artifacts.download("s1", "a", to=file)
    assert file.getvalue() == data


async def test_a_url_is_resolved(hive: hivemem.Hive, tmp_path: Path) -> None:
    first = await hive.artifacts.upload("s 1", "größe/a.bin", b"one")
    await hive.artifacts.upload("s 1", "größe/a.bin", b"two")
    newest = first.url.partition("?")[0]
    assert (await hive.artifacts.read(first.url), await hive.artifacts.read(newest)) == (b"one", b"two")
    assert await hive.artifacts.read(newest, version=1) == b"one"
    found = await hive.open(first.url)
    assert (found.artifact, await found.read()) == (first, b"one")
    assert b"".join([piece async for piece in found.stream()]) == b"one"
    assert await found.download(tmp_path / "a") == first
    for url in ("hive://other/s1/a", "hive:nothing", "http://example/s1/a"):
        with pytest.raises((hivemem.Forbidden, hivemem.InvalidRequest)):
            await hive.open(url)


async def test_bytes_that_are_there_are_not_sent_again(hive: hivemem.Hive, monkeypatch: pytest.MonkeyPatch) -> None:
    await hive.artifacts.upload("s1", "a", LARGE)
    sent = count_chunks(monkeypatch)
    artifact = await hive.artifacts.upload("s1", "b", LARGE, sha256=sha256(LARGE).hexdigest())
    assert (artifact.size, sent) == (len(LARGE), [])


def count_chunks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collect the subjects of all chunks that are sent or requested from here on."""
    request, found = Connection.request, list[str]()

    async def counting(self: Connection, subject: str, *rest: Any) -> Any:
        if ".artifacts.chunk." in subject or ".artifacts.read." in subject:
            found.append(subject)
        return await request(self, subject, *rest)

    monkeypatch.setattr(Connection, "request", counting)
    return found


async def test_a_source_that_fails_leaves_no_file(hive: hivemem.Hive) -> None:
    async def failing() -> AsyncIterator[bytes]:
        yield LARGE
        raise ValueError("the source is broken")

    with pytest.raises(ExceptionGroup) as raised:
        await hive.artifacts.upload("s1", "a", failing())
    assert raised.group_contains(ValueError, match="the source is broken")
    with pytest.raises(hivemem.NotFound):
        await hive.artifacts.stat(session_id="s1", name="a")


async def test_an_upload_goes_on_where_a_killed_program_left_it(
    hive: hivemem.Hive, bot: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = hive.with_options(message_id=bot.id("report"))

    class Killed(Exception):
        pass

    def kill(done: int, total: int | None) -> None:
        if done >= 3 * CHUNK:
            raise Killed

    with pytest.raises(ExceptionGroup):
        await again.artifacts.upload("s1", "a", LARGE, progress=kill)
    sent = count_chunks(monkeypatch)
    artifact = await again.artifacts.upload("s1", "a", LARGE)
    assert artifact.sha256 == sha256(LARGE).hexdigest()
    assert len(sent) <= 3
    sent.clear()
    assert await again.artifacts.upload("s1", "a", LARGE) == artifact
    assert sent == []


async def test_a_path_that_is_not_there_is_refused(hive: hivemem.Hive, tmp_path: Path) -> None:
    with pytest.raises(hivemem.InvalidRequest, match="source"):
        await hive.artifacts.upload("s1", "a", tmp_path / "nothing")


async def test_a_wrong_hash_is_refused_and_nothing_saved(hive: hivemem.Hive) -> None:
    for data in (SMALL, LARGE):
        with pytest.raises(hivemem.InvalidRequest, match="sha256"):
            await hive.artifacts.upload("s1", "a", data, sha256="0" * 64)
    with pytest.raises(hivemem.NotFound):
        await hive.artifacts.stat(session_id="s1", name="a")


async def test_an_interrupted_download_goes_on_where_it_was(
    hive: hivemem.Hive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await hive.artifacts.upload("s1", "a", LARGE)
    path = tmp_path / "out"
    path.write_bytes(b"what was there before")

    class Killed(Exception):
        pass

    def kill(done: int, total: int | None) -> None:
        if done >= 3 * CHUNK:
            raise Killed

    with pytest.raises(Killed):
        await hive.artifacts.download("s1", "a", to=path, progress=kill)
    assert path.read_bytes() == b"what was there before"
    (part,) = files_in(tmp_path) - {path}
    assert part.read_bytes() == LARGE[: 3 * CHUNK]
    part.write_bytes(part.read_bytes()[: 2 * CHUNK + 17])
    asked = count_chunks(monkeypatch)
    await hive.artifacts.download("s1", "a", to=path)
    assert (path.read_bytes(), len(asked)) == (LARGE, 4)
    assert files_in(tmp_path) == {path}


async def test_a_spoiled_part_is_thrown_away(hive: hivemem.Hive, tmp_path: Path) -> None:
    artifact = await hive.artifacts.upload("s1", "a", LARGE)
    path = tmp_path / "out"
    part = tmp_path / f".out.{artifact.sha256[:16]}.part"
    part.write_bytes(b"x" * CHUNK)
    with pytest.raises(hivemem.Internal, match="do not match its hash"):
        await hive.artifacts.download("s1", "a", to=path)
    assert not path.exists()
    await hive.artifacts.download("s1", "a", to=path)
    assert path.read_bytes() == LARGE
    assert files_in(tmp_path) == {path}


async def test_two_downloads_to_one_path_do_not_disturb_each_other(hive: hivemem.Hive, tmp_path: Path) -> None:
    await hive.artifacts.upload("s1", "a", LARGE)
    path = tmp_path / "out"
    await asyncio.gather(*(hive.artifacts.download("s1", "a", to=path) for _ in range(3)))
    assert path.read_bytes() == LARGE
    assert files_in(tmp_path) == {path}


async def test_a_part_that_was_put_in_place_just_now_is_left_alone(
    hive: hivemem.Hive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await hive.artifacts.upload("s1", "a", LARGE)
    path, other = tmp_path / "out", tmp_path / "other"
    locked, parts = downloading._locked, list[Path]()  # pyright: ignore[reportPrivateUsage]  # it is overtaken there

    def overtaken(descriptor: int) -> bool:
        (part,) = files_in(tmp_path)
        parts.append(part.rename(other))
        return locked(descriptor)

    monkeypatch.setattr(downloading, "_locked", overtaken)
    await hive.artifacts.download("s1", "a", to=path)
    assert (path.read_bytes(), other.read_bytes(), len(parts)) == (LARGE, b"", 1)
    assert files_in(tmp_path) == {path, other}


async def test_a_corrupted_chunk_is_asked_for_again(hive: hivemem.Hive, monkeypatch: pytest.MonkeyPatch) -> None:
    await hive.artifacts.upload("s1", "a", LARGE)
    calls = list[int]()

    def wrong_once(data: bytes) -> int:
        calls.append(len(data))
        return crc32(data) ^ (len(calls) == 2)

    monkeypatch.setattr(downloading, "crc32", wrong_once)
    assert await hive.artifacts.read("s1", "a") == LARGE
    assert len(calls) == 7


async def test_bytes_that_are_not_those_of_the_hash_are_noticed(
    hive: hivemem.Hive, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    await hive.artifacts.upload("s1", "a", LARGE)
    read = deployment.store.read

    async def broken(*arguments: Any) -> bytes:
        data = await read(*arguments)
        return bytes([data[0] ^ 1]) + data[1:]

    monkeypatch.setattr(deployment.store, "read", broken)
    with pytest.raises(hivemem.Internal, match="do not match its hash"):
        await hive.artifacts.read("s1", "a")


async def test_a_file_that_is_deleted_while_it_is_read_is_not_found(hive: hivemem.Hive, bot: Agent) -> None:
    await hive.artifacts.upload("s1", "a", LARGE * 4)

    async def read_and_delete() -> None:
        async for _ in hive.artifacts.stream("s1", "a"):
            if await bot.pages("list"):
                await hive.artifacts.delete(session_id="s1", name="a")

    with pytest.raises(hivemem.NotFound):
        await read_and_delete()


async def test_a_presigned_upload_goes_to_the_store_itself(
    hive: hivemem.Hive, deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not deployment.store.presigned.able:
        with pytest.raises(hivemem.InvalidRequest, match="presigned"):
            await hive.artifacts.upload("s1", "a", SMALL, presigned=True)
        await hive.artifacts.upload("s1", "a", SMALL)
        with pytest.raises(hivemem.InvalidRequest, match="presigned"):
            await hive.artifacts.get(session_id="s1", name="a", presigned=True)
        return
    sent = count_chunks(monkeypatch)
    for data in (SMALL, LARGE):
        for source in (data, as_path(data, tmp_path), as_file(data, tmp_path)):
            artifact = await hive.artifacts.upload("s1", "a", source, presigned=True)
            assert (artifact.size, artifact.sha256) == (len(data), sha256(data).hexdigest())
    assert sent == []
    assert await hive.artifacts.read("s1", "a") == LARGE
    with pytest.raises(hivemem.InvalidRequest, match="source"):
        await hive.artifacts.upload("s1", "a", pieces_of(LARGE, CHUNK), presigned=True)
