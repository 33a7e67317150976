"""A kill before any step that leaves a trace leaves each blob and view whole or absent."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hivemem_artifacts.ports import BlobStore

from .backends import Backend
from .content import TENANT, UPLOAD, digest, everything, put, whole
from .life import LARGE, SMALL

MOST_STEPS = 200
ONE, TWO = b"[1, 1]", b"[2, 2]"
ROOT = Path(__file__).resolve().parents[3]


class Life:
    """The program that is killed again and again."""

    def __init__(self, program: subprocess.Popen[str]) -> None:
        self._program = program

    def play(self, script: str, step: int) -> tuple[list[str], bool]:
        """Play a script; return its acknowledged steps and whether the program was killed."""
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        self._program.stdin.write(f"{script} {step}\n")
        self._program.stdin.flush()
        said: list[str] = []
        while (line := self._program.stdout.readline().strip()) not in ("killed", "whole"):
            assert line, "the program ended"
            said.append(line)
        return said, line == "killed"


@pytest.fixture
def life(backend: Backend, store: BlobStore) -> Iterator[Life]:
    del store  # another store has created the place
    command = [sys.executable, "-m", "tests.artifacts.blobs.life", *backend.arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as program:
        yield Life(program)
        assert program.stdin is not None
        program.stdin.close()


async def check_whole(store: BlobStore) -> list[str]:
    """Check that the bytes of every blob match its name, and return the names."""
    blobs = [stored.blob for stored in await everything(store.blobs())]
    for blob in blobs:
        assert digest(await whole(store, blob)) == blob
    return blobs


async def clean(store: BlobStore, backend: Backend) -> None:
    """Remove everything as the cleanup timer does, and check that the store is empty."""
    for found in await everything(store.stagings()):
        await store.discard(found.upload_id)
    for stored in await everything(store.blobs()):
        await store.delete(TENANT, stored.blob)
    await store.remove_view(TENANT, "s1")
    assert backend.holds() == set()


async def test_a_put_that_is_killed_leaves_a_whole_blob_or_none(life: Life, store: BlobStore, backend: Backend) -> None:
    for step in range(1, MOST_STEPS):
        said, killed = life.play("putting", step)
        blobs = await check_whole(store)
        assert blobs == [digest(SMALL)] or not said
        await put(store, SMALL)
        assert await check_whole(store) == [digest(SMALL)]
        await clean(store, backend)
        if not killed:
            return
    pytest.fail("it never came to its end")


async def test_an_upload_that_is_killed_goes_on_from_what_was_durable(
    life: Life, store: BlobStore, backend: Backend
) -> None:
    for step in range(1, MOST_STEPS):
        said, killed = life.play("uploading", step)
        blobs = await check_whole(store)
        assert blobs == [digest(LARGE)] or "sealed" not in said
        if "discarded" not in said:
            durable = max((int(number) for number in said if number.isdecimal()), default=0)
            await go_on(store, durable, blobs)
        assert await check_whole(store) == [digest(LARGE)]
        await clean(store, backend)
        if not killed:
            return
    pytest.fail("it never came to its end")


async def go_on(store: BlobStore, durable: int, blobs: list[str]) -> None:
    staging = await store.open_staging(UPLOAD)
    # Only a discarded staging may have lost bytes, and then its blob exists.
    assert staging.size >= durable or blobs
    assert staging.sha256 == digest(LARGE[: staging.size])
    while staging.size < len(LARGE):
        await staging.append(LARGE[staging.size : staging.size + 8_000_000])
    await staging.seal(TENANT, staging.sha256)
    await staging.close()


async def test_a_view_that_is_killed_is_the_old_or_the_new_one(life: Life, store: BlobStore, backend: Backend) -> None:
    for step in range(1, MOST_STEPS):
        await put(store, SMALL)
        said, killed = life.play("showing", step)
        check_seen(backend, said)
        view = await store.open_view(TENANT, "s1")
        await view.add([], b"[]")
        await view.finish()
        (left,) = shown(backend)
        assert backend.content(left) == b"[]"
        await clean(store, backend)
        if not killed:
            return
    pytest.fail("it never came to its end")


def shown(backend: Backend) -> list[str]:
    return [path for path in backend.holds() if path.startswith(("tenants/", "manifests/"))]


def check_seen(backend: Backend, said: list[str]) -> None:
    paths = shown(backend)
    manifests = [backend.content(path) for path in paths if path.endswith(".json")]
    possible: dict[int, list[list[bytes]]] = {0: [[], [ONE]], 1: [[ONE], [TWO]], 2: [[TWO], []], 3: [[]]}
    assert manifests in possible[len(said)]
    # Every file in the manifest can be found.
    files = {path.rpartition("_")[2] for path in paths if not path.endswith(".json")}
    if len(said) < 2 and "tenants" in "".join(paths):
        assert files >= {"0-of-1"} or manifests != [ONE]
        assert files >= {"0-of-2", "1-of-2"} or manifests != [TWO]


async def test_a_delete_that_is_killed_leaves_a_whole_blob_or_none(
    life: Life, store: BlobStore, backend: Backend
) -> None:
    for step in range(1, MOST_STEPS):
        await put(store, SMALL)
        said, killed = life.play("deleting", step)
        assert await check_whole(store) == ([] if said else [digest(SMALL)])
        await clean(store, backend)
        if not killed:
            return
    pytest.fail("it never came to its end")
