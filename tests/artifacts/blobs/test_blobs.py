"""Blobs can be put, read, found and deleted."""

import asyncio
import time

import pytest

from hivemem_artifacts.ports import PIECE_BYTES, BlobStore
from hivemem_contracts.errors import InvalidRequest, NotFound

from .backends import Backend
from .content import TENANT, digest, everything, put, some_bytes, whole

LEEWAY_MICROSECONDS = 5_000_000


async def test_what_was_put_is_read_again_by_another_worker(store: BlobStore, other: BlobStore) -> None:
    data = some_bytes(100_000)
    blob = await put(store, data)
    assert await whole(other, blob) == data


@pytest.mark.parametrize(("offset", "length"), [(0, 1), (0, 1_000), (1, 998), (999, 1), (500, 5_000)])
async def test_a_range_is_read(store: BlobStore, offset: int, length: int) -> None:
    data = some_bytes(1_000)
    blob = await put(store, data)
    assert await store.read(TENANT, blob, offset, length) == data[offset : offset + length]


@pytest.mark.parametrize("offset", [1_000, 1_001, 2**40])
async def test_nothing_is_read_past_the_end(store: BlobStore, offset: int) -> None:
    blob = await put(store, some_bytes(1_000))
    assert await store.read(TENANT, blob, offset, 10) == b""


async def test_no_bytes_are_a_blob_too(store: BlobStore) -> None:
    blob = await put(store, b"")
    assert await store.read(TENANT, blob, 0, 10) == b""
    stored = await store.stat(TENANT, blob)
    assert stored is not None
    assert stored.size == 0


async def test_a_whole_piece_is_put_and_read_at_once(store: BlobStore) -> None:
    data = some_bytes(PIECE_BYTES)
    blob = await put(store, data)
    assert await store.read(TENANT, blob, 0, PIECE_BYTES) == data


async def test_the_same_bytes_are_stored_once(backend: Backend, store: BlobStore, other: BlobStore) -> None:
    data = some_bytes(1_000)
    for _ in range(3):
        await put(store, data)
    await put(other, data)
    assert [stored.blob for stored in await everything(store.blobs())] == [digest(data)]
    assert len(backend.holds()) == 1


async def test_the_size_and_the_time_are_known(store: BlobStore) -> None:
    before = time.time_ns() // 1_000
    blob = await put(store, some_bytes(1_234))
    stored = await store.stat(TENANT, blob)
    assert stored is not None
    assert (stored.tenant, stored.blob, stored.size) == (TENANT, blob, 1_234)
    assert before - LEEWAY_MICROSECONDS < stored.modified_at < time.time_ns() // 1_000 + LEEWAY_MICROSECONDS
    (listed,) = await everything(store.blobs())
    assert listed[:3] == stored[:3]
    assert abs(listed.modified_at - stored.modified_at) < LEEWAY_MICROSECONDS


async def test_bytes_that_are_not_there_are_not_found(store: BlobStore) -> None:
    missing = digest(b"missing")
    assert await store.stat(TENANT, missing) is None
    with pytest.raises(NotFound):
        await store.read(TENANT, missing, 0, 10)


async def test_a_deleted_blob_is_gone_and_can_come_back(backend: Backend, store: BlobStore) -> None:
    blob = await put(store, b"hello")
    await store.delete(TENANT, blob)
    assert await store.stat(TENANT, blob) is None
    assert await everything(store.blobs()) == []
    assert backend.holds() == set()
    await put(store, b"hello")
    assert await whole(store, blob) == b"hello"


async def test_deleting_what_is_not_there_is_fine(store: BlobStore) -> None:
    await store.delete(TENANT, digest(b"missing"))


async def test_another_life_of_a_blob_is_another_blob(store: BlobStore) -> None:
    blob = await put(store, b"hello")
    await store.put(TENANT, f"{blob}-3", b"hello")
    await store.delete(TENANT, blob)
    assert await whole(store, f"{blob}-3") == b"hello"
    assert [stored.blob for stored in await everything(store.blobs())] == [f"{blob}-3"]


@pytest.mark.parametrize(
    "blob",
    [
        "",
        "abc",
        "../" * 21 + "x",
        "A" * 64,
        "0" * 63 + "\n",
        "0" * 65,
        "0" * 64 + "-",
        "0" * 64 + "-0",
        "0" * 64 + "/x",
    ],
)
async def test_a_blob_of_no_such_name_is_refused(store: BlobStore, blob: str) -> None:
    with pytest.raises(InvalidRequest):
        await store.put(TENANT, blob, b"hello")
    with pytest.raises(InvalidRequest):
        await store.read(TENANT, blob, 0, 1)
    with pytest.raises(InvalidRequest):
        await store.delete(TENANT, blob)


async def test_tenants_share_no_bytes(store: BlobStore) -> None:
    tenants = ["acme", "Acme", "acme.eu", "..", "a/b", "a%2Fb", "blobs", "staging", "ünï", "日本"]
    for tenant in tenants:
        await put(store, b"hello", tenant)
    assert sorted(stored.tenant for stored in await everything(store.blobs())) == sorted(tenants)
    for gone, tenant in enumerate(tenants, start=1):
        await store.delete(tenant, digest(b"hello"))
        assert len(await everything(store.blobs())) == len(tenants) - gone


async def test_a_tenant_whose_name_no_store_takes_is_refused(store: BlobStore) -> None:
    with pytest.raises(InvalidRequest):
        await put(store, b"hello", "é" * 100)


async def test_more_blobs_than_a_page_are_listed(store: BlobStore) -> None:
    count = 1_100
    turns = asyncio.Semaphore(50)

    async def one(number: int) -> None:
        async with turns:
            await put(store, b"%d" % number)

    await asyncio.gather(*map(one, range(count)))
    assert len({stored.blob for stored in await everything(store.blobs())}) == count


async def test_a_listing_that_is_left_early_keeps_nothing(store: BlobStore) -> None:
    for number in range(3):
        await put(store, b"%d" % number)
    listing = store.blobs()
    await anext(listing)
    del listing
    assert len(await everything(store.blobs())) == 3


async def test_many_put_the_same_bytes_at_once(store: BlobStore, other: BlobStore) -> None:
    data = some_bytes(50_000)
    await asyncio.gather(*(put(worker, data) for worker in (store, other) * 20))
    assert await whole(store, digest(data)) == data
    assert len(await everything(store.blobs())) == 1


async def test_a_read_beside_a_delete_gives_the_bytes_or_says_that_they_are_gone(
    store: BlobStore, other: BlobStore
) -> None:
    data = some_bytes(PIECE_BYTES)
    for _ in range(3):
        blob = await put(store, data)
        reads = [asyncio.ensure_future(store.read(TENANT, blob, 0, PIECE_BYTES)) for _ in range(4)]
        await asyncio.sleep(0)
        await other.delete(TENANT, blob)
        for outcome in await asyncio.gather(*reads, return_exceptions=True):
            assert outcome == data or isinstance(outcome, NotFound)


async def test_a_check_leaves_nothing(backend: Backend, store: BlobStore) -> None:
    for _ in range(3):
        await store.check()
    assert backend.holds() == set()


async def test_a_closed_store_can_be_used_again(backend: Backend) -> None:
    """A worker that stops and starts again reuses its store like this."""
    store = backend.open()
    await store.check()
    blob = await put(store, b"hello")
    await store.close()
    await store.close()
    assert await whole(store, blob) == b"hello"
    await store.close()
