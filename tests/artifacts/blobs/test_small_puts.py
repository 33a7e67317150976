"""Small blobs that arrive together are written in groups, and each has its own outcome."""

import asyncio
import errno
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from hivemem_artifacts.adapters.filesystem import FilesystemBlobs
from hivemem_artifacts.adapters.filesystem.put_queue import GROUP, LANES
from hivemem_artifacts.ports import BlobStore
from hivemem_contracts.errors import Unavailable

from .content import TENANT, digest, everything, put, whole

MANY = 3 * GROUP * LANES


@pytest_asyncio.fixture
async def store(tmp_path: Path) -> AsyncIterator[BlobStore]:
    store = FilesystemBlobs(tmp_path)
    await store.check()
    yield store
    await store.close()


def content(number: int) -> bytes:
    return b"bytes %d" % number


async def test_many_at_once_are_all_there_and_the_same_ones_once(store: BlobStore, tmp_path: Path) -> None:
    numbers = [number // 2 for number in range(MANY)]
    await asyncio.gather(*(put(store, content(number)) for number in numbers))
    assert len(await everything(store.blobs())) == MANY // 2
    for number in set(numbers):
        assert await whole(store, digest(content(number))) == content(number)
    assert list((tmp_path / "staging").iterdir()) == []


async def test_what_cannot_be_written_fails_alone(store: BlobStore, tmp_path: Path) -> None:
    bad = digest(content(0))
    shards = tmp_path / "blobs" / TENANT
    shards.mkdir()
    (shards / bad[:2]).write_text("in the way")
    outcomes = await asyncio.gather(*(put(store, content(number)) for number in range(MANY)), return_exceptions=True)
    for number, outcome in enumerate(outcomes):
        if digest(content(number))[:2] == bad[:2]:
            assert isinstance(outcome, Unavailable)
        else:
            assert outcome == digest(content(number))
    assert list((tmp_path / "staging").iterdir()) == []


async def test_a_name_that_the_disk_may_have_lost_is_acknowledged_to_nobody(
    store: BlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel reports such a failure once, and the next attempt succeeds."""
    sync, told = os.fsync, set[int]()

    def once(descriptor: int) -> None:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode) and status.st_ino not in told:
            told.add(status.st_ino)
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(descriptor)

    first = content(0)
    alike = next(data for data in map(content, range(1, 100_000)) if digest(data)[:2] == digest(first)[:2])
    await put(store, first)  # the folder of the blob exists now
    await store.delete(TENANT, digest(first))
    others = [asyncio.create_task(put(store, content(number))) for number in range(-LANES, 0)]  # every lane is busy
    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", once)
        outcomes = await asyncio.gather(put(store, first), put(store, alike), *others, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes[:2]] == [Unavailable, Unavailable]


async def test_one_that_is_cancelled_holds_nobody_up(store: BlobStore) -> None:
    puts = [asyncio.create_task(put(store, content(number))) for number in range(MANY)]
    await asyncio.sleep(0)
    for each in puts[::2]:
        each.cancel()
    outcomes = await asyncio.gather(*puts, return_exceptions=True)
    assert all(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes[::2])
    for number in range(1, MANY, 2):
        assert await whole(store, digest(content(number))) == content(number)


async def test_what_is_waiting_at_the_end_is_written(tmp_path: Path) -> None:
    store = FilesystemBlobs(tmp_path)
    await store.check()
    puts = [asyncio.create_task(put(store, content(number))) for number in range(MANY)]
    await asyncio.sleep(0)
    await store.close()
    assert await asyncio.gather(*puts) == [digest(content(number)) for number in range(MANY)]
