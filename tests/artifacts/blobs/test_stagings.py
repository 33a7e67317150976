"""Uploads in progress: which bytes are durable, who holds the staging, how it becomes a blob."""

import asyncio
import time

import pytest

from hivemem_artifacts.ports import PIECE_BYTES, BlobStore
from hivemem_contracts.errors import InvalidRequest, Unavailable

from .backends import Backend
from .content import TENANT, UPLOAD, append_all, digest, everything, put, some_bytes, staged, whole

SIZES = [0, 1, 70_000, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 2 * PIECE_BYTES, 20_000_000]
LEEWAY_MICROSECONDS = 5_000_000


@pytest.mark.parametrize("size", SIZES)
async def test_what_was_appended_becomes_a_blob(backend: Backend, store: BlobStore, size: int) -> None:
    data = some_bytes(size)
    staging = await staged(store, data)
    assert (staging.size, staging.sha256) == (size, digest(data))
    await staging.seal(TENANT, staging.sha256)
    assert staging.durable == size
    assert await whole(store, digest(data)) == data
    await staging.close()
    await store.discard(UPLOAD)
    assert len(backend.holds()) == 1, "the blob alone"


async def test_appended_bytes_are_no_blob_before_they_are_sealed(store: BlobStore) -> None:
    staging = await staged(store, b"hello")
    await staging.flush()
    assert await everything(store.blobs()) == []
    await staging.close()


@pytest.mark.parametrize("size", SIZES)
async def test_what_was_flushed_is_found_by_another_worker(store: BlobStore, other: BlobStore, size: int) -> None:
    data = some_bytes(size)
    staging = await staged(store, data)
    await staging.flush()
    assert staging.durable == size
    again = await other.open_staging(UPLOAD)
    assert (again.size, again.durable, again.sha256) == (size, size, digest(data))
    await append_all(again, b"and more")
    await again.seal(TENANT, again.sha256)
    assert await whole(store, digest(data + b"and more")) == data + b"and more"
    await again.close()
    await staging.close()


async def test_closing_keeps_what_was_taken(store: BlobStore) -> None:
    data = some_bytes(10_000_000)
    staging = await staged(store, data)
    await staging.close()
    await staging.close()
    assert not staging.usable
    again = await store.open_staging(UPLOAD)
    assert (again.size, again.sha256) == (len(data), digest(data))
    await again.close()


async def test_a_closed_staging_takes_nothing(store: BlobStore) -> None:
    staging = await staged(store, b"hello")
    await staging.close()
    with pytest.raises(Unavailable):
        await staging.append(b"more")
    with pytest.raises(Unavailable):
        await staging.flush()
    with pytest.raises(Unavailable):
        await staging.seal(TENANT, digest(b"hello"))


async def test_most_of_a_long_upload_is_durable_without_asking(store: BlobStore, other: BlobStore) -> None:
    data = some_bytes(6 * PIECE_BYTES)
    staging = await staged(store, data)
    durable = staging.durable
    assert durable >= len(data) - 3 * PIECE_BYTES
    again = await other.open_staging(UPLOAD)
    assert again.size >= durable
    assert again.sha256 == digest(data[: again.size])
    await again.close()
    await staging.close()


async def test_an_earlier_holder_changes_nothing_for_a_later_one(store: BlobStore, other: BlobStore) -> None:
    earlier = await staged(store, b"both know this")
    await earlier.flush()
    later = await other.open_staging(UPLOAD)
    try:
        await append_all(earlier, some_bytes(3 * PIECE_BYTES))
        await earlier.flush()
    except Unavailable:
        assert not earlier.usable
    await later.append(b", the later one this")
    await later.seal(TENANT, later.sha256)
    assert later.sha256 == digest(b"both know this, the later one this")
    assert await whole(store, later.sha256) == b"both know this, the later one this"
    await later.close()
    await earlier.close()


async def test_of_many_that_take_over_at_once_nobody_breaks_it(store: BlobStore, other: BlobStore) -> None:
    data = some_bytes(9_000_000)
    await (await staged(store, data)).close()
    outcomes = await asyncio.gather(
        *(worker.open_staging(UPLOAD) for worker in (store, other) * 4), return_exceptions=True
    )
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            assert isinstance(outcome, Unavailable), outcome
        else:
            assert outcome.sha256 == digest(data)
            await outcome.close()
    staging = await store.open_staging(UPLOAD)
    assert (staging.size, staging.sha256) == (len(data), digest(data))
    await staging.close()


async def test_sealing_twice_is_fine(store: BlobStore) -> None:
    staging = await staged(store, b"hello")
    await staging.seal(TENANT, staging.sha256)
    await staging.seal(TENANT, staging.sha256)
    await staging.seal("globex", staging.sha256)
    assert [stored.tenant for stored in await everything(store.blobs())] in ([TENANT, "globex"], ["globex", TENANT])
    await staging.close()


async def test_a_sealed_staging_takes_no_more_and_stays_until_it_is_discarded(
    store: BlobStore, other: BlobStore
) -> None:
    data = some_bytes(9_000_000)
    staging = await staged(store, data)
    await staging.seal(TENANT, staging.sha256)
    with pytest.raises(InvalidRequest):
        await staging.append(b"more")
    again = await other.open_staging(UPLOAD)
    assert (again.size, again.sha256) == (len(data), digest(data))
    await again.seal(TENANT, again.sha256)
    await again.close()
    await staging.close()


async def test_a_blob_does_not_grow_with_an_upload_that_goes_on(store: BlobStore) -> None:
    staging = await staged(store, b"hello")
    await staging.seal(TENANT, staging.sha256)
    await staging.close()
    again = await store.open_staging(UPLOAD)
    await again.append(b" world")
    await again.seal(TENANT, again.sha256)
    assert await whole(store, digest(b"hello")) == b"hello"
    assert await whole(store, digest(b"hello world")) == b"hello world"
    await again.close()


async def test_two_seal_the_same_bytes_at_once(backend: Backend, store: BlobStore, other: BlobStore) -> None:
    data = some_bytes(9_000_000)
    stagings = [await staged(worker, data, name) for worker, name in ((store, "one"), (other, "two"))]
    await asyncio.gather(*(staging.seal(TENANT, staging.sha256) for staging in stagings))
    assert await whole(store, digest(data)) == data
    for staging, name in zip(stagings, ("one", "two"), strict=True):
        await staging.close()
        await store.discard(name)
    assert len(backend.holds()) == 1


async def test_sealing_what_was_put_before_is_fine(store: BlobStore) -> None:
    blob = await put(store, b"hello")
    staging = await staged(store, b"hello")
    await staging.seal(TENANT, blob)
    assert await whole(store, blob) == b"hello"
    await staging.close()


async def test_a_discarded_upload_begins_anew(backend: Backend, store: BlobStore, other: BlobStore) -> None:
    staging = await staged(store, some_bytes(9_000_000))
    await staging.flush()
    await other.discard(UPLOAD)
    assert backend.holds() == set()
    with pytest.raises(Unavailable):
        await staging.seal(TENANT, staging.sha256)
    await staging.close()
    await store.discard(UPLOAD)
    again = await store.open_staging(UPLOAD)
    assert (again.size, again.durable, again.sha256) == (0, 0, digest(b""))
    await again.close()


async def test_discarding_what_is_not_there_is_fine(store: BlobStore) -> None:
    await store.discard("never-begun")


async def test_uploads_with_something_staged_are_listed_with_their_time(store: BlobStore) -> None:
    before = time.time_ns() // 1_000
    for number in range(3):
        await (await staged(store, some_bytes(10, number), f"upload-{number}")).close()
    listed = await everything(store.stagings())
    assert sorted(found.upload_id for found in listed) == ["upload-0", "upload-1", "upload-2"]
    for found in listed:
        assert before - LEEWAY_MICROSECONDS < found.modified_at < time.time_ns() // 1_000 + LEEWAY_MICROSECONDS
        await store.discard(found.upload_id)
    assert await everything(store.stagings()) == []


@pytest.mark.parametrize("upload_id", ["", ".", "..", "a/b", "../blobs", "a" * 65, "a\n", "a\0b", "ü", "%2F"])
async def test_an_upload_of_no_such_id_is_refused(store: BlobStore, upload_id: str) -> None:
    with pytest.raises(InvalidRequest):
        await store.open_staging(upload_id)
    with pytest.raises(InvalidRequest):
        await store.discard(upload_id)


async def test_many_uploads_run_side_by_side(store: BlobStore) -> None:
    async def one(number: int) -> None:
        data = some_bytes(300_000, number)
        staging = await store.open_staging(f"upload-{number}")
        for offset in range(0, len(data), 50_000):
            await staging.append(data[offset : offset + 50_000])
        await staging.seal(TENANT, staging.sha256)
        await staging.close()
        await store.discard(f"upload-{number}")
        assert await whole(store, digest(data)) == data

    await asyncio.gather(*map(one, range(20)))
    assert await everything(store.stagings()) == []


async def test_a_cancelled_append_leaves_a_staging_that_knows_what_it_has(store: BlobStore) -> None:
    data = some_bytes(5 * PIECE_BYTES)
    staging = await store.open_staging(UPLOAD)
    while staging.size < len(data):
        piece = data[staging.size : staging.size + PIECE_BYTES // 3]
        task = asyncio.ensure_future(staging.append(piece))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert staging.sha256 == digest(data)
    await staging.seal(TENANT, staging.sha256)
    assert await whole(store, digest(data)) == data
    await staging.close()
