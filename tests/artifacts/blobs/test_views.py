"""The view of a session for people: the manifest, and files where the store shows them."""

import asyncio
import json
import os
from collections.abc import Sequence
from typing import Any

import pytest

from hivemem_artifacts.ports import NAMES_PER_CALL, BlobStore, ShownFile

from .backends import Backend
from .content import TENANT, everything, put

AT = 1_767_225_599_000_001
STAMP = "20251231T235959.000001Z"
SESSION = "run-42"


async def show(store: BlobStore, files: Sequence[ShownFile], text: bytes, session_id: str = SESSION) -> None:
    view = await store.open_view(TENANT, session_id)
    half = len(text) // 2
    await view.add(files[:1], text[:half])
    await view.add(files[1:], text[half:])
    await view.finish()


def seen(backend: Backend) -> set[str]:
    """Return the file names of the view, without the blobs behind them."""
    return {path.rpartition("/")[2] for path in backend.holds() if not path.startswith("blobs/")}


def manifest(store: BlobStore, session_id: str = SESSION) -> str:
    return "manifest.json" if store.shows_files.able else f"{session_id}.json"


async def test_a_session_is_shown(backend: Backend, store: BlobStore) -> None:
    blob = await put(store, b"hello")
    files = [ShownFile("a.txt", 1, AT, blob), ShownFile("reports/b.txt", 1, AT + 1, blob)]
    await show(store, files, b'{"items": []}')
    names = {f"{STAMP}_a.txt", f"{STAMP[:-2]}2Z_reports%2Fb.txt"} if store.shows_files.able else set[str]()
    assert seen(backend) == {manifest(store), *names}
    assert await everything(store.stagings()) == []


async def test_a_later_state_replaces_an_earlier_one(backend: Backend, store: BlobStore, other: BlobStore) -> None:
    blobs = [await put(store, b"%d" % number) for number in range(3)]
    files = [ShownFile(f"{number}.txt", 1, AT, blob) for number, blob in enumerate(blobs)]
    await show(store, files, b"[0, 1, 2]")
    await show(other, files[1:], b"[1, 2]")
    names = {f"{STAMP}_{number}.txt" for number in (1, 2)} if store.shows_files.able else set[str]()
    assert seen(backend) == {manifest(store), *names}
    await show(store, [], b"[]")
    assert seen(backend) == {manifest(store)}


async def test_showing_the_same_again_changes_nothing(backend: Backend, store: BlobStore) -> None:
    files = [ShownFile("a.txt", 1, AT, await put(store, b"hello"))]
    await show(store, files, b"[1]")
    before = backend.holds()
    await show(store, files, b"[1]")
    assert backend.holds() == before


async def test_an_abandoned_state_is_not_seen(backend: Backend, store: BlobStore) -> None:
    await show(store, [], b"[1]")
    before = backend.holds()
    view = await store.open_view(TENANT, SESSION)
    await view.add([], b"[2")
    await view.abandon()
    await view.abandon()
    assert backend.holds() == before
    await show(store, [], b"[3]")


async def test_two_versions_of_one_moment_are_both_seen(backend: Backend, store: BlobStore) -> None:
    files = [ShownFile("a.txt", version, AT, await put(store, b"%d" % version)) for version in (1, 2)]
    await show(store, files, b"[]")
    await show(store, files, b"[]")
    names = {f"{STAMP}_a.txt", f"{STAMP}~2_a.txt"} if store.shows_files.able else set[str]()
    assert seen(backend) == {manifest(store), *names}


async def test_a_file_whose_bytes_are_gone_is_left_out(backend: Backend, store: BlobStore) -> None:
    blob = await put(store, b"hello")
    await store.delete(TENANT, blob)
    await show(store, [ShownFile("a.txt", 1, AT, blob)], b"[]")
    assert seen(backend) == {manifest(store)}


async def test_a_removed_session_is_not_seen(backend: Backend, store: BlobStore) -> None:
    blob = await put(store, b"hello")
    await show(store, [ShownFile("a.txt", 1, AT, blob)], b"[1]")
    await show(store, [ShownFile("a.txt", 1, AT, blob)], b"[1]", "another")
    await store.remove_view(TENANT, SESSION)
    await store.remove_view(TENANT, SESSION)
    assert not [path for path in backend.holds() if SESSION in path]
    assert manifest(store, "another") in seen(backend)
    await show(store, [ShownFile("a.txt", 1, AT, blob)], b"[1]")
    assert manifest(store) in seen(backend)


async def test_one_task_at_a_time_holds_a_session(store: BlobStore) -> None:
    newest, shown = 0, list[int]()

    async def one() -> None:
        nonlocal newest
        view = await store.open_view(TENANT, SESSION)
        newest += 1
        state = newest
        await view.add([], b"%d" % state)
        shown.append(state)
        await view.finish()

    await asyncio.gather(*(one() for _ in range(10)), store.remove_view(TENANT, SESSION))
    assert shown == sorted(shown)


async def test_another_session_is_not_waited_for(store: BlobStore) -> None:
    view = await store.open_view(TENANT, SESSION)
    await show(store, [], b"[]", "another")
    await view.abandon()


async def test_a_long_manifest_is_written_whole(backend: Backend, store: BlobStore) -> None:
    items = [{"name": f"file {number}", "padding": "x" * 1_000} for number in range(20_000)]
    await show(store, [], json.dumps(items).encode())
    assert seen(backend) == {manifest(store)}
    assert await everything(store.stagings()) == []


async def test_sessions_and_tenants_of_any_name_are_apart(backend: Backend, store: BlobStore) -> None:
    names = [
        "a",
        "..",
        ".",
        "a/b",
        "a%2Fb",
        "a\\b",
        "a~",
        "A" * 256,
        "A" * 255 + "B",
        "日本" * 128,
        "\u202egnp.exe",
        "/",
    ]
    for tenant in ("default", "acme", "../default"):
        for name in names:
            view = await store.open_view(tenant, name)
            await view.add([], b"[]")
            await view.finish()
    assert len(backend.holds()) == 3 * len(names)
    for tenant in ("default", "acme", "../default"):
        for name in names:
            await store.remove_view(tenant, name)
    assert backend.holds() == set()


def listing(files: Sequence[ShownFile]) -> bytes:
    """Return a manifest of these files as the worker writes it."""
    items = [{"name": file.name, "version": file.version} for file in files]
    entries = ",\n    ".join(json.dumps(item, separators=(",", ":")) for item in items)
    return f'{{"tenant":"t",\n  "items": [\n    {entries}\n  ]\n}}\n'.encode()


async def test_kept_files_stay_and_others_go(backend: Backend, store: BlobStore) -> None:
    blob = await put(store, b"hello")
    long = "x" * 240 + ".tar"
    files = [ShownFile(name, 1, AT + at, blob) for at, name in enumerate(("a.txt", "b.txt", long))]
    await show(store, files, listing(files))
    before = seen(backend)
    view = await store.open_view(TENANT, SESSION)
    assert view.keep("a.txt", 1, 1)
    assert view.keep(long, 1, 1)
    await view.add([], listing([files[0], files[2]]))
    await view.finish()
    gone = {name for name in before if name.endswith("_b.txt")}
    assert len(gone) == store.shows_files.able
    assert seen(backend) == before - gone


async def test_a_file_that_is_not_shown_as_it_is_cannot_be_kept(store: BlobStore) -> None:
    if not store.shows_files.able:
        pytest.skip("an object store shows a manifest alone, so there is nothing to keep")
    file = ShownFile("a.txt", 2, AT, await put(store, b"hello"))
    await show(store, [file], listing([file]))
    for name, version, links in (("a.txt", 3, 1), ("a.txt", 2, 2), ("b.txt", 2, 1), ("a.txt", 2, 0)):
        view = await store.open_view(TENANT, SESSION)
        assert not view.keep(name, version, links)
        await view.abandon()
    await show(store, [file], b'{"name" is edited by hand')
    view = await store.open_view(TENANT, SESSION)
    assert not view.keep("a.txt", 2, 1)
    await view.abandon()


async def test_one_more_file_among_many_makes_one_link(store: BlobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of links that an update makes and removes does not grow with the session."""
    if not store.shows_files.able:
        pytest.skip("an object store shows a manifest alone, and has no links")
    blob = await put(store, b"hello")
    files = [ShownFile(f"{number}.txt", 1, AT + number, blob) for number in range(NAMES_PER_CALL)]
    await show(store, files, listing(files))
    changed: list[str] = []
    link, unlink = os.link, os.unlink

    def linked(source: str, name: str, **options: Any) -> None:
        changed.append(name)
        link(source, name, **options)

    def unlinked(name: str, **options: Any) -> None:
        changed.append(name)
        unlink(name, **options)

    monkeypatch.setattr(os, "link", linked)
    monkeypatch.setattr(os, "unlink", unlinked)
    view = await store.open_view(TENANT, SESSION)
    assert all(view.keep(file.name, 1, 1) for file in files)
    await view.add([ShownFile("new.txt", 1, AT, blob)], listing(files))
    await view.finish()
    assert set(changed) == {f"{STAMP}_new.txt"}
