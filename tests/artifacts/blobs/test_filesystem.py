"""The folder of the filesystem store: file modes, links, and files that others have put there."""

import asyncio
import errno
import os
import stat
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import pytest_asyncio

from hivemem_artifacts.adapters.filesystem import FilesystemBlobs
from hivemem_artifacts.adapters.filesystem import store as filesystem_store
from hivemem_artifacts.adapters.filesystem.folders import locked
from hivemem_artifacts.ports import BlobStore, ShownFile
from hivemem_contracts.errors import NotFound, Unavailable
from hivemem_testing.waiting import DEADLINE_SECONDS

from .content import TENANT, UPLOAD, digest, everything, put, staged, whole

AT = 1_767_225_599_000_001
STAMP = "20251231T235959.000001Z"
SECRET = b"the secret of somebody else"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "data" / "root"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder that the store must not read from, write to or remove from."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(SECRET)
    return outside


@pytest_asyncio.fixture
async def store(root: Path) -> AsyncIterator[BlobStore]:
    store = FilesystemBlobs(root)
    await store.check()
    yield store
    await store.close()


@pytest.fixture(params=[0o000, 0o022, 0o077])
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


async def everything_once(store: BlobStore, tenant: str = TENANT) -> str:
    """Run every call that makes files or folders, and return the blob."""
    blob = await put(store, b"hello", tenant)
    staging = await staged(store, b"staged")
    await staging.flush()
    await staging.seal(tenant, staging.sha256)
    await staging.close()
    view = await store.open_view(tenant, "s1")
    await view.add([ShownFile("a.txt", 1, AT, blob)], b"[]")
    await view.finish()
    return blob


@pytest.mark.usefixtures("umask")
async def test_nobody_else_may_read_anything(root: Path) -> None:
    store = FilesystemBlobs(root)
    await store.check()
    await everything_once(store)
    await store.close()
    check_modes(root)


def check_modes(root: Path) -> None:
    paths = [root.parent, root, *root.rglob("*")]
    assert len(paths) > 10
    for path in paths:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


async def test_people_find_the_files_of_the_default_tenant_by_their_session(store: BlobStore, root: Path) -> None:
    await everything_once(store, "default")
    await everything_once(store, "acme")
    for folder in (root / "artifacts", root / "tenants" / "acme" / "artifacts"):
        assert sorted(path.name for path in (folder / "s1").iterdir()) == [f"{STAMP}_a.txt", "manifest.json"]
        assert (folder / "s1" / f"{STAMP}_a.txt").read_bytes() == b"hello"


async def test_a_file_that_people_see_takes_no_room_of_its_own(store: BlobStore, root: Path) -> None:
    blob = await everything_once(store, "default")
    shown = root / "artifacts" / "s1" / f"{STAMP}_a.txt"
    assert shown.samefile(root / "blobs" / "default" / blob[:2] / blob)


async def test_what_people_put_beside_the_files_stays(store: BlobStore, root: Path) -> None:
    await everything_once(store, "default")
    own = root / "artifacts" / "s1" / "notes.txt"
    own.write_text("mine")
    view = await store.open_view("default", "s1")
    await view.finish()
    assert own.read_text() == "mine"
    await store.remove_view("default", "s1")
    assert [path.name for path in own.parent.iterdir()] == ["notes.txt"]


def plant(root: Path, place: str, outside: Path) -> None:
    """Put a link to the outside folder at a path of the store, in place of any file there."""
    target = root / place
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists():
        target.rename(outside.with_name("moved"))
    target.symlink_to(outside / "secret" if "." in target.name or len(target.name) == 64 else outside)


BLOB = digest(b"hello")
PLACES = [
    "blobs",
    f"blobs/{TENANT}",
    f"blobs/{TENANT}/{BLOB[:2]}",
    f"blobs/{TENANT}/{BLOB[:2]}/{BLOB}",
    "staging",
    f"staging/{UPLOAD}",
    f"staging/{UPLOAD}/file-0.6",
    "tenants",
    f"tenants/{TENANT}",
    f"tenants/{TENANT}/artifacts",
    f"tenants/{TENANT}/artifacts/s1",
    f"tenants/{TENANT}/artifacts/s1/{STAMP}_a.txt",
    f"tenants/{TENANT}/artifacts/s1/manifest.json",
]


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("place", PLACES)
async def test_a_planted_link_leads_nowhere(
    store: BlobStore, root: Path, outside: Path, place: str, before: bool
) -> None:
    if not before:
        await everything_once(store)
    plant(root, place, outside)
    steps = [
        store.check(),
        put(store, b"hello"),
        everything(store.blobs()),
        everything(store.stagings()),
        store.delete(TENANT, BLOB),
        everything_once(store),
        store.discard(UPLOAD),
        store.remove_view(TENANT, "s1"),
    ]
    with suppress(NotFound, Unavailable):
        assert await store.read(TENANT, BLOB, 0, 1_000) == b"hello"
    for step in steps:
        try:
            await step
        except Unavailable as error:
            said = error.detail
            assert str(root) not in said
    check_untouched(outside)


def check_untouched(outside: Path) -> None:
    assert [path.name for path in outside.iterdir()] == ["secret"]
    secret = outside / "secret"
    assert secret.read_bytes() == SECRET
    assert stat.S_IMODE(secret.stat().st_mode) == 0o644
    assert secret.stat().st_nlink == 1


async def test_a_pipe_in_the_place_of_a_blob_holds_nobody_up(store: BlobStore, root: Path) -> None:
    blob = await put(store, b"hello")
    path = root / "blobs" / TENANT / blob[:2] / blob
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(Unavailable):
        await store.read(TENANT, blob, 0, 10)
    view = await store.open_view(TENANT, "s1")
    await view.add([ShownFile("a.txt", 1, AT, blob)], b"[]")
    await view.finish()
    assert [path.name for path in (root / "tenants" / TENANT / "artifacts" / "s1").iterdir()] == ["manifest.json"]
    await put(store, b"hello")
    assert await whole(store, blob) == b"hello"


async def test_a_blob_that_was_cut_by_hand_is_put_right_by_the_next_one(store: BlobStore, root: Path) -> None:
    blob = await put(store, b"hello")
    os.truncate(root / "blobs" / TENANT / blob[:2] / blob, 3)
    staging = await staged(store, b"hello")
    await staging.seal(TENANT, blob)
    assert await whole(store, blob) == b"hello"
    os.truncate(root / "blobs" / TENANT / blob[:2] / blob, 3)
    await staging.close()
    await put(store, b"hello")
    assert await whole(store, blob) == b"hello"


async def test_what_others_left_in_the_folders_is_passed_over(store: BlobStore, root: Path) -> None:
    blob = await put(store, b"hello")
    for place in ("blobs", f"blobs/{TENANT}", f"blobs/{TENANT}/{blob[:2]}", "staging"):
        (root / place / ".DS_Store").write_text("x")
        (root / place / "a folder").mkdir()
    assert [stored.blob for stored in await everything(store.blobs())] == [blob]
    assert await everything(store.stagings()) == []


async def test_staged_bytes_that_were_cut_by_hand_begin_anew(store: BlobStore, root: Path) -> None:
    await (await staged(store, b"hello")).close()
    (path,) = (root / "staging" / UPLOAD).iterdir()
    os.truncate(path, 3)
    staging = await store.open_staging(UPLOAD)
    assert staging.size == 0
    await staging.append(b"again")
    await staging.seal(TENANT, staging.sha256)
    assert await whole(store, digest(b"again")) == b"again"
    await staging.close()


async def test_bytes_that_are_not_known_to_be_durable_are_not_trusted(store: BlobStore, root: Path) -> None:
    """After a power failure such bytes may be zeros."""
    await (await staged(store, b"hello")).close()
    (path,) = (root / "staging" / UPLOAD).iterdir()
    with path.open("ab") as file:
        file.write(bytes(100))
    staging = await store.open_staging(UPLOAD)
    assert (staging.size, staging.sha256) == (5, digest(b"hello"))
    await staging.close()


def move(source: Path, target: Path) -> Path:
    return source.rename(target)


async def test_a_disk_that_fails_is_not_trusted_with_what_it_lost(
    store: BlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    staging = await staged(store, b"durable")
    await staging.flush()
    await staging.append(b", perhaps lost")

    def fail(descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", fail)
        with pytest.raises(Unavailable):
            await staging.flush()
    assert not staging.usable
    for attempt in (staging.flush(), staging.append(b"more"), staging.seal(TENANT, staging.sha256)):
        with pytest.raises(Unavailable):
            await attempt
    again = await store.open_staging(UPLOAD)
    assert again.sha256 == digest(b"durable")
    await again.close()
    await staging.close()


@pytest.mark.parametrize("last", ["flush", "close"])
async def test_what_a_holder_makes_durable_while_it_is_taken_over_is_kept_or_unsaid(
    store: BlobStore, root: Path, monkeypatch: pytest.MonkeyPatch, last: str
) -> None:
    """The sender drops bytes from its buffer once they are reported as durable."""
    data = b"durable, and not yet"
    earlier = await staged(store, data[:7])
    await earlier.flush()
    await earlier.append(data[7:])
    loop, asked = asyncio.get_running_loop(), "hivemem_artifacts.adapters.filesystem.takeover.locked"

    async def act() -> None:
        with suppress(Unavailable):
            await getattr(earlier, last)()

    def late(descriptor: int) -> bool:
        monkeypatch.setattr(asked, locked)
        asyncio.run_coroutine_threadsafe(act(), loop).result(DEADLINE_SECONDS)
        return locked(descriptor)

    monkeypatch.setattr(asked, late)
    later = await store.open_staging(UPLOAD)
    assert later.size >= earlier.durable >= 7
    await later.append(data[later.size :])
    await later.seal(TENANT, later.sha256)
    assert await whole(store, digest(data)) == data
    await later.close()
    await earlier.close()
    assert len(list((root / "staging" / UPLOAD).iterdir())) == 1


async def test_what_is_sealed_late_is_new_to_a_collector(store: BlobStore, root: Path) -> None:
    staging = await staged(store, b"hello")
    (path,) = (root / "staging" / UPLOAD).iterdir()
    os.utime(path, (0, 0))
    began = time.time_ns() // 1_000
    await staging.seal(TENANT, staging.sha256)
    (stored,) = await everything(store.blobs())
    assert stored.modified_at > began - 1_000_000
    await staging.close()


async def test_a_view_that_is_held_too_long_is_unavailable(store: BlobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filesystem_store, "VIEW_SECONDS", 0.1)
    view = await store.open_view(TENANT, "s1")
    with pytest.raises(Unavailable):
        await store.open_view(TENANT, "s1")
    with pytest.raises(Unavailable):
        await store.remove_view(TENANT, "s1")
    await view.abandon()
    await store.remove_view(TENANT, "s1")


async def test_a_folder_that_is_gone_is_unavailable_until_it_is_back(store: BlobStore, root: Path) -> None:
    blob = await put(store, b"hello")
    away = move(root, root.with_name("away"))
    for attempt in (put(store, b"hello"), store.open_staging(UPLOAD), store.open_view(TENANT, "s1")):
        with pytest.raises(Unavailable) as refused:
            await attempt
        assert str(root) not in refused.value.detail
    move(away, root)
    assert await whole(store, blob) == b"hello"


async def test_a_file_in_the_place_of_the_root_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    store = FilesystemBlobs(tmp_path / "file")
    with pytest.raises(Unavailable):
        await store.check()
    await store.close()
