"""A full disk is reported clearly, breaks nothing, and writes continue when there is room again."""

import resource
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from hivemem_artifacts.ports import BlobStore
from hivemem_contracts.errors import Unavailable
from hivemem_testing.disks import grow, small_disk
from hivemem_testing.servers import packaged_minio
from hivemem_testing.waiting import eventually

from .backends import Backend, bucket, filesystem
from .content import TENANT, UPLOAD, digest, everything, put, some_bytes, whole

MEBIBYTE: Final = 1024 * 1024
DISKS: Final = {"filesystem": 24, "minio": 96}
SESSION: Final = "s1"


@contextmanager
def largest_file(size: int) -> Generator[None]:
    """Limit the size of files in this process, which looks to it like a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@asynccontextmanager
async def opened(backend: Backend) -> AsyncGenerator[BlobStore]:
    store = backend.open()
    await store.check()
    yield store
    await store.close()


@dataclass(frozen=True)
class SmallDisk:
    backend: Backend
    grow: Callable[[], None]


@pytest.fixture(params=DISKS)
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SmallDisk]:
    """A store on a small disk of its own."""
    kind: str = request.param
    place = tmp_path / "disk"

    with ExitStack() as stack:
        stack.enter_context(small_disk(place, DISKS[kind]))
        if kind == "filesystem":
            backend = filesystem(place / "root")
        else:
            backend = bucket(stack.enter_context(packaged_minio(place)).address, "test")
        yield SmallDisk(backend, lambda: grow(place, 2 * DISKS[kind]))


async def until_full(step: Callable[[], Awaitable[object]]) -> Unavailable:
    for _ in range(200):
        try:
            await step()
        except Unavailable as error:
            return error
    pytest.fail("the disk never was full")


async def test_a_full_disk_breaks_nothing_and_an_upload_goes_on_when_there_is_room(disk: SmallDisk) -> None:
    async with opened(disk.backend) as store:
        view = await store.open_view(TENANT, SESSION)
        await view.add([], b"[1]")
        await view.finish()
        filler = [await put(store, some_bytes(MEBIBYTE, seed)) for seed in range(8)]
        staging = await store.open_staging(UPLOAD)
        sent = b""

        async def send() -> None:
            nonlocal sent
            data = some_bytes(MEBIBYTE, 100 + len(sent))
            await staging.append(data)
            sent += data

        error = await until_full(send)
        assert (error.retryable, error.context["disk_full"]) == (True, True)
        assert "full" in error.detail
        assert (staging.size, staging.sha256) == (len(sent), digest(sent))
        await until_full(lambda: put(store, some_bytes(MEBIBYTE, 1_000)))
        await unchanged(store, disk.backend, filler)
        disk.grow()
        await eventually(lambda: succeeds(send), "there is room again")
        await staging.flush()
        assert staging.durable == len(sent)
        await staging.close()
        again = await store.open_staging(UPLOAD)
        assert (again.size, again.sha256) == (len(sent), digest(sent))
        await again.close()
        await store.discard(UPLOAD)
        assert await everything(store.stagings()) == []


async def succeeds(step: Callable[[], Awaitable[object]]) -> bool:
    try:
        await step()
    except Unavailable:
        return False
    return True


async def unchanged(store: BlobStore, backend: Backend, blobs: list[str]) -> None:
    for blob in blobs:
        assert digest(await whole(store, blob)) == blob
    view = await store.open_view(TENANT, SESSION)
    try:
        await view.add([], some_bytes(MEBIBYTE))
        await view.finish()
    except Unavailable:
        await view.abandon()
        (manifest,) = [path for path in backend.holds() if path.endswith(".json")]
        assert backend.content(manifest) == b"[1]"
    assert not [path for path in backend.holds() if "/put-" in path]


async def test_a_file_that_may_not_grow_is_a_full_disk_too(tmp_path: Path) -> None:
    """This works on machines where no file system can be mounted, too."""
    data = some_bytes(5 * MEBIBYTE)
    async with opened(filesystem(tmp_path / "root")) as store:
        staging = await store.open_staging(UPLOAD)
        with largest_file(3 * MEBIBYTE + 1_000):
            error = await until_full(lambda: staging.append(data[staging.size : staging.size + MEBIBYTE]))
            assert error.context["disk_full"] is True
            assert (staging.size, staging.sha256) == (3 * MEBIBYTE, digest(data[: 3 * MEBIBYTE]))
            with pytest.raises(Unavailable):
                await put(store, data)
            assert await everything(store.blobs()) == []
            assert [found.upload_id for found in await everything(store.stagings())] == [UPLOAD]
        while staging.size < len(data):
            await staging.append(data[staging.size : staging.size + MEBIBYTE])
        await staging.seal(TENANT, staging.sha256)
        assert await whole(store, digest(data)) == data
        await staging.close()
