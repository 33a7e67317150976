"""An object store is killed or frozen, and comes back."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from hivemem_artifacts.adapters.objects import ObjectBlobs, bucket
from hivemem_artifacts.ports import PIECE_BYTES, BlobStore, Staging
from hivemem_contracts.errors import Unavailable
from hivemem_testing.process import ProcessServer
from hivemem_testing.servers import packaged_minio, packaged_seaweedfs
from hivemem_testing.waiting import eventually

from .content import TENANT, UPLOAD, digest, everything, put, some_bytes, staged, whole

LONGEST_SECONDS = 15.0


@pytest.fixture(params=[packaged_minio, packaged_seaweedfs])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ProcessServer]:
    start: Callable[[Path], ProcessServer] = request.param
    with start(tmp_path) as server:
        yield server


@pytest_asyncio.fixture
async def store(server: ProcessServer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[BlobStore]:
    monkeypatch.setattr(bucket, "READ_SECONDS", 2.0)
    store = ObjectBlobs(server.url, server.address.access_key, server.address.secret_key, "test")
    await store.check()
    yield store
    await store.close()


async def refused(store: BlobStore, blob: str) -> None:
    """Check that every call fails quickly with `Unavailable`, without the address of the store."""
    calls = [
        store.check(),
        store.put(TENANT, blob, b"hello"),
        store.read(TENANT, blob, 0, 5),
        store.stat(TENANT, blob),
        store.delete(TENANT, blob),
        everything(store.blobs()),
        everything(store.stagings()),
        store.open_staging(UPLOAD),
        store.open_presigned(UPLOAD, 5),
        store.discard(UPLOAD),
        store.remove_view(TENANT, "s1"),
    ]
    began = time.monotonic()
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert time.monotonic() - began < LONGEST_SECONDS
    for outcome in outcomes:
        assert isinstance(outcome, Unavailable), outcome
        assert outcome.retryable
        assert "127.0.0.1" not in outcome.detail


async def succeeds(step: Awaitable[object]) -> bool:
    try:
        await step
    except Unavailable:
        return False
    return True


async def send(staging: Staging, data: bytes) -> None:
    while staging.size < len(data):
        await staging.append(data[staging.size : staging.size + PIECE_BYTES])


async def test_an_upload_goes_on_when_the_store_is_back(server: ProcessServer, store: BlobStore) -> None:
    data = some_bytes(4 * PIECE_BYTES)
    blob = await put(store, b"hello")
    staging = await staged(store, data[: PIECE_BYTES + 1_000])
    await staging.flush()
    server.kill()
    await refused(store, blob)
    taken = staging.size
    with pytest.raises(Unavailable):
        await send(staging, data)
    assert staging.size < taken + 3 * PIECE_BYTES, "what cannot be put is not piled up"
    with pytest.raises(Unavailable):
        await staging.flush()
    assert staging.durable == taken
    assert staging.sha256 == digest(data[: staging.size])
    view = await store.open_view(TENANT, "s1")
    await view.add([], b"[]")
    with pytest.raises(Unavailable):
        await view.finish()
    await view.abandon()
    await asyncio.to_thread(server.restart)
    # Its port opens before it can write again.
    await eventually(lambda: succeeds(send(staging, data)), "the rest is taken")
    await staging.seal(TENANT, staging.sha256)
    await staging.close()
    await store.discard(UPLOAD)
    assert await whole(store, digest(data)) == data
    assert await whole(store, blob) == b"hello"


async def test_a_store_that_holds_its_breath_is_unavailable(server: ProcessServer, store: BlobStore) -> None:
    blob = await put(store, b"hello")
    server.pause()
    await refused(store, blob)
    server.resume()
    await eventually(lambda: succeeds(store.check()), "it answers again")
    assert await whole(store, await put(store, b"hello again")) == b"hello again"


async def test_a_closing_staging_does_not_wait_for_a_store_that_is_gone(
    server: ProcessServer, store: BlobStore
) -> None:
    staging = await staged(store, some_bytes(PIECE_BYTES + 1_000))
    server.kill()
    began = time.monotonic()
    await staging.close()
    assert time.monotonic() - began < LONGEST_SECONDS


@pytest.mark.parametrize(("access_key", "secret_key"), [("hivemem", "wrong"), ("nobody", "hivemem-secret")])
async def test_wrong_keys_are_unavailable_and_said(server: ProcessServer, access_key: str, secret_key: str) -> None:
    store = ObjectBlobs(server.url, access_key, secret_key, "test")

    async def said() -> bool:
        with pytest.raises(Unavailable) as refused:
            await store.check()
        return "refuses the configured access" in refused.value.detail

    # A server that has just started may not have read its keys yet, and then reports that instead.
    await eventually(said, "the keys are refused")
    await store.close()


async def test_a_bucket_that_is_missing_is_made_by_the_check(server: ProcessServer) -> None:
    store = ObjectBlobs(server.url, server.address.access_key, server.address.secret_key, "fresh")
    with pytest.raises(Unavailable):
        await everything(store.blobs())
    await asyncio.gather(*(store.check() for _ in range(5)))
    assert await everything(store.blobs()) == []
    await store.close()
