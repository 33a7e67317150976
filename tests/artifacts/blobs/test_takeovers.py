"""In an object store, one worker takes an upload over at the very moment when another one puts a segment of it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest
import pytest_asyncio

from hivemem_artifacts.adapters.objects import takeover
from hivemem_artifacts.adapters.objects.bucket import Bucket
from hivemem_artifacts.ports import BlobStore, Staging
from hivemem_contracts.errors import Unavailable
from hivemem_testing.waiting import DEADLINE_SECONDS

from .backends import BACKENDS
from .content import TENANT, UPLOAD, digest, staged, whole

pytestmark = pytest.mark.parametrize("backend", [name for name in BACKENDS if name != "filesystem"], indirect=True)

DATA = b"durable, and not yet"


@pytest_asyncio.fixture
async def earlier(store: BlobStore) -> AsyncIterator[Staging]:
    earlier = await staged(store, DATA[:7])
    await earlier.flush()
    await earlier.append(DATA[7:])
    yield earlier
    await earlier.close()


async def go_on(later: Staging, store: BlobStore) -> None:
    await later.append(DATA[later.size :])
    await later.seal(TENANT, later.sha256)
    assert await whole(store, digest(DATA)) == DATA
    await later.close()


async def test_what_became_durable_before_the_claim_is_kept(
    store: BlobStore, other: BlobStore, earlier: Staging, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sender drops bytes from its buffer once they are reported as durable."""
    loop, find = asyncio.get_running_loop(), takeover._staged  # pyright: ignore[reportPrivateUsage]  # the moment

    def found(*arguments: Any) -> Any:
        monkeypatch.setattr(takeover, "_staged", find)
        segments = find(*arguments)
        asyncio.run_coroutine_threadsafe(earlier.flush(), loop).result(DEADLINE_SECONDS)
        return segments

    monkeypatch.setattr(takeover, "_staged", found)
    later = await other.open_staging(UPLOAD)
    assert later.size == earlier.durable == len(DATA)
    await later.close()
    again = await store.open_staging(UPLOAD)
    assert (again.size, again.sha256) == (len(DATA), digest(DATA))
    await go_on(again, store)


async def test_what_a_later_holder_found_stays_there(
    store: BlobStore, other: BlobStore, earlier: Staging, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, put = asyncio.get_running_loop(), Bucket.put
    opened = list[Staging]()

    def overtaken(self: Bucket, *arguments: Any) -> Any:
        monkeypatch.setattr(Bucket, "put", put)
        done = put(self, *arguments)
        opened.append(asyncio.run_coroutine_threadsafe(other.open_staging(UPLOAD), loop).result(DEADLINE_SECONDS))
        return done

    monkeypatch.setattr(Bucket, "put", overtaken)
    with suppress(Unavailable):
        await earlier.flush()
    assert not earlier.usable
    (later,) = opened
    assert later.sha256 == digest(DATA[: later.size])
    await later.close()
    await go_on(await store.open_staging(UPLOAD), store)
