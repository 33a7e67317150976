"""The client saves folders as versions of a workspace, and restores them."""

import asyncio
import os
import socket
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import hivemem
import hivemem.sync
from hivemem.workspaces import restores, sandbox
from hivemem.workspaces.staging import Staging
from hivemem.workspaces.trees import read_tree
from hivemem_contracts.limits import ARTIFACT_CHUNK_BYTES as CHUNK
from hivemem_contracts.limits import MESSAGE_BYTES

from .conftest import Deployment
from .folders import make, names, seen

pytestmark = pytest.mark.asyncio(loop_scope="session")

W = "app"
LARGE = os.urandom(3 * CHUNK + 17)


async def test_a_folder_goes_there_and_back(hive: hivemem.Hive, tmp_path: Path) -> None:
    src = make(tmp_path / "src", run="#!", a__b__c="deep", empty="", large=LARGE, same="deep", ä="umlaut")
    (src / "run").chmod(0o755)
    (src / "secret").write_text("s")
    (src / "secret").chmod(0o600)
    (src / "a" / "up").symlink_to("../run")
    (src / "dangling").symlink_to("nowhere")
    done: list[int] = []
    first = await hive.workspaces.snapshot(
        src, workspace_id=W, message="start", progress=lambda sent, total: done.append(sent)
    )
    assert (first.version, first.files, first.added, first.skipped) == (1, 9, 9, [])
    assert first.uploaded_bytes == done[-1] == len(LARGE) + len(b"#!deepsumlaut")
    restored = await hive.workspaces.restore(W, tmp_path / "new" / "copy")
    assert (restored.version, restored.files, restored.written) == (1, 9, 9)
    assert seen(tmp_path / "new" / "copy") == seen(src)
    assert names(tmp_path / "new") == {"copy"}

    again = await hive.workspaces.snapshot(src, workspace_id=W, expect_version=1)
    assert (again.version, again.uploaded_bytes, again.added, again.changed, again.removed) == (2, 0, 0, 0, 0)
    (src / "run").chmod(0o644)
    (src / "same").unlink()
    (src / "large").write_bytes(LARGE[:-1])
    third = await hive.workspaces.snapshot(src, workspace_id=W)
    assert (third.uploaded_bytes, third.added, third.changed, third.removed) == (len(LARGE) - 1, 0, 2, 1)
    changes = await hive.workspaces.diff(W, 2)
    assert [(each.path, each.change) for each in changes] == [
        ("large", "changed"),
        ("run", "changed"),
        ("same", "removed"),
    ]
    assert [each.version for each in await hive.workspaces.versions(W)] == [3, 2, 1]
    assert [each.workspace_id for each in await hive.workspaces.list()] == [W]
    assert len(await hive.workspaces.files(W, 1)) == 9
    await hive.workspaces.delete(W)
    assert await hive.workspaces.list() == []


async def test_what_no_version_holds_is_named(
    hive: hivemem.Hive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    src = make(tmp_path / "src", ok="1", Ok="2", **{"a:b": "3", "line\nbreak": "4"})
    os.mkfifo(src / "fifo")
    monkeypatch.chdir(src)  # the path of a socket is short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
    (src / "out").symlink_to("../other")
    (src / "absolute").symlink_to("/etc/passwd")
    (src / "through").symlink_to("a/../../other")
    (src / "empty folder").mkdir()
    (src / os.fsdecode(b"\xff")).write_text("not UTF-8")
    done = await hive.workspaces.snapshot(src, workspace_id=W)
    assert [file.path for file in await hive.workspaces.files(W)] == ["Ok"]
    assert {skipped.path for skipped in done.skipped} == {
        "absolute",
        "a:b",
        "fifo",
        "line\nbreak",
        "ok",
        "out",
        "socket",
        "through",
        "?",
    }


async def test_ignored_files_are_left_out_and_spared(hive: hivemem.Hive, tmp_path: Path) -> None:
    src = make(
        tmp_path / "src",
        keep="1",
        a__log="2",
        a__sub__cache="3",
        build__x="4",
        **{".gitignore": "build/\n*.log\n!a/keep.log\n", "x.log": "5", "a__keep.log": "6"},
        **{"a__.gitignore": "/log\n", ".hivememignore": "cache\n", ".git__config": "7", "mine.tmp": "8"},
    )
    await hive.workspaces.snapshot(src, workspace_id=W, ignore=["*.tmp"])
    kept = [file.path for file in await hive.workspaces.files(W)]
    assert kept == [".gitignore", ".hivememignore", "a/.gitignore", "a/keep.log", "keep"]
    make(src, extra="9", sub__extra="10")
    (src / "keep").unlink()
    restored = await hive.workspaces.restore(W, src, delete=True, ignore=["*.tmp"])
    assert (restored.written, restored.removed) == (1, 2)
    assert {"a/log", "a/sub/cache", "build/x", "x.log", ".git/config", "mine.tmp", "keep"} <= seen(src).keys()
    assert not seen(src).keys() & {"extra", "sub", "sub/extra"}
    with pytest.raises(hivemem.InvalidRequest, match="ignore"):
        await hive.workspaces.snapshot(src, workspace_id=W, ignore=["!"])


async def test_a_restore_replaces_files_and_leaves_others(hive: hivemem.Hive, tmp_path: Path) -> None:
    src = make(tmp_path / "src", a="1", b__c="2", d="3")
    await hive.workspaces.snapshot(src, workspace_id=W)
    target = make(tmp_path / "target", a="other", extra="mine", d="3")
    (target / "b").mkdir()
    (target / "b" / "c").symlink_to("../../src/a")
    done = await hive.workspaces.restore(W, target)
    assert (done.written, done.removed, done.downloaded_bytes) == (2, 0, 2)
    assert seen(target) == {**seen(src), "extra": (b"mine", 0o644)}
    assert (src / "a").read_text() == "1"


@pytest.mark.parametrize("delete", [False, True])
async def test_a_folder_in_the_place_of_a_file_is_kept_unless_its_files_may_go(
    hive: hivemem.Hive, tmp_path: Path, delete: bool
) -> None:
    src = make(tmp_path / "src", a="1", b="2")
    await hive.workspaces.snapshot(src, workspace_id=W)
    target = make(tmp_path / "target", a="old", b__mine="mine")
    before = seen(target)
    if delete:
        await hive.workspaces.restore(W, target, delete=True)
        assert seen(target) == seen(src)
    else:
        with pytest.raises(hivemem.InvalidRequest, match="'b'"):
            await hive.workspaces.restore(W, target)
        assert seen(target) == before


async def test_a_link_in_the_place_of_a_folder_is_not_followed(hive: hivemem.Hive, tmp_path: Path) -> None:
    await hive.workspaces.snapshot(make(tmp_path / "src", a="1", b__c="2"), workspace_id=W)
    outside = make(tmp_path / "outside", keep="1")
    target = make(tmp_path / "target", a="old")
    (target / "b").symlink_to(outside)
    with pytest.raises(hivemem.InvalidRequest, match="'b/c'"):
        await hive.workspaces.restore(W, target)
    assert (seen(outside), (target / "a").read_text()) == ({"keep": (b"1", 0o644)}, "old")


async def test_a_link_that_appears_during_a_restore_is_not_followed(
    hive: hivemem.Hive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await hive.workspaces.snapshot(make(tmp_path / "src", a="1", b__c="2"), workspace_id=W)
    outside, target = make(tmp_path / "outside", c="mine"), make(tmp_path / "target", a="old", b__c="old")
    write_plan = Staging._write_plan  # pyright: ignore[reportPrivateUsage]  # the last step before files move

    def replace(self: Staging, *arguments: Any) -> None:
        (target / "b").rename(target / "moved")
        (target / "b").symlink_to(outside)
        write_plan(self, *arguments)

    monkeypatch.setattr(Staging, "_write_plan", replace)
    with pytest.raises(hivemem.InvalidRequest):
        await hive.workspaces.restore(W, target)
    assert (seen(outside), (target / "a").read_text()) == ({"c": (b"mine", 0o644)}, "old")


@pytest.mark.parametrize("exists", [True, False])
async def test_a_failed_restore_puts_everything_back(
    hive: hivemem.Hive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exists: bool
) -> None:
    src = make(tmp_path / "src", a="1", n__new="2", z__last="3")
    await hive.workspaces.snapshot(src, workspace_id=W)
    target = tmp_path / "target"
    if exists:
        make(target, a="old", extra="mine")
    before = seen(tmp_path)
    move_in = Staging._move_in  # pyright: ignore[reportPrivateUsage]  # it fails where a disk may be full

    def fail(self: Staging, number: int, folder: int, name: str) -> None:
        if name == "last":
            raise OSError(28, "No space left on device")
        move_in(self, number, folder, name)

    monkeypatch.setattr(Staging, "_move_in", fail)
    with pytest.raises(hivemem.InvalidRequest, match="No space left"):
        await hive.workspaces.restore(W, target, delete=True)
    assert seen(tmp_path) == before


async def test_one_restore_of_a_folder_at_a_time(hive: hivemem.Hive, tmp_path: Path) -> None:
    await hive.workspaces.snapshot(make(tmp_path / "src", a="1"), workspace_id=W)
    with sandbox.opened_root(make(tmp_path / "target")) as descriptor:
        assert restores._locked(descriptor)  # pyright: ignore[reportPrivateUsage]  # as another process does
        with pytest.raises(hivemem.Unavailable, match="another restore"):
            await hive.workspaces.restore(W, tmp_path / "target")


async def test_a_list_larger_than_a_message_is_one_version(hive: hivemem.Hive, tmp_path: Path) -> None:
    names = [f"{'long' * 20}-{n:05}" for n in range(MESSAGE_BYTES // 200)]
    src = make(tmp_path / "src", **dict.fromkeys(names, "x"))
    done = await hive.workspaces.snapshot(src, workspace_id=W)
    assert (done.version, done.files, done.uploaded_bytes) == (1, len(names), 1)
    assert sorted(names) == [file.path for file in await hive.workspaces.files(W)]


async def test_a_file_that_changes_meanwhile_is_kept_as_it_was_sent(
    hive: hivemem.Hive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    src = make(tmp_path / "src", grows="1", small="2", large=LARGE)

    def then_change(*arguments: Any) -> Any:
        tree = read_tree(*arguments)
        make(src, grows=LARGE[:-2], small="22", large=LARGE[:-1])
        return tree

    monkeypatch.setattr("hivemem.workspaces.snapshots.read_tree", then_change)
    done = await hive.workspaces.snapshot(src, workspace_id=W)
    assert done.bytes == len(LARGE[:-1]) + len(LARGE[:-2]) + 2
    await hive.workspaces.restore(W, tmp_path / "copy")
    assert seen(tmp_path / "copy") == seen(src)


async def cancelled(begin: Callable[..., Coroutine[Any, Any, object]]) -> None:
    """Begin some work, and cancel it at its first progress."""
    begun = asyncio.Event()

    def progress(done: int, total: int | None) -> None:
        begun.set()

    work = asyncio.create_task(begin(progress=progress))
    await begun.wait()
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    assert work.cancelled()


async def test_a_cancelled_snapshot_leaves_no_upload(
    hive: hivemem.Hive, deployment: Deployment, tmp_path: Path
) -> None:
    before = {each.upload_id async for each in deployment.store.stagings()}
    src = make(tmp_path / "src", large=os.urandom(20 * CHUNK))
    await cancelled(partial(hive.workspaces.snapshot, src, workspace_id=W))
    assert [each.upload_id async for each in deployment.store.stagings() if each.upload_id not in before] == []
    with pytest.raises(hivemem.NotFound):
        await hive.workspaces.files(W)


async def test_a_cancelled_restore_leaves_the_folder_as_it_was(hive: hivemem.Hive, tmp_path: Path) -> None:
    await hive.workspaces.snapshot(make(tmp_path / "src", large=os.urandom(40 * CHUNK)), workspace_id=W)
    target = make(tmp_path / "target", large="old")
    for root in (target, tmp_path / "absent"):
        await cancelled(partial(hive.workspaces.restore, W, root))
    assert seen(target) == {"large": (b"old", 0o644)}
    assert names(tmp_path) == {"src", "target"}


async def test_a_synchronous_client_does_the_same(hive: hivemem.Hive, deployment: Deployment, tmp_path: Path) -> None:
    src = make(tmp_path / "src", a="1")

    def work() -> None:
        with hivemem.sync.connect(deployment.settings.nats_url, tenant=hive.tenant) as client:
            assert client.workspaces.snapshot(src, workspace_id=W).version == 1
            assert client.workspaces.restore(W, tmp_path / "copy").files == 1
            assert [each.path for each in client.workspaces.files(W)] == ["a"]

    await asyncio.to_thread(work)


@pytest.mark.parametrize(("name", "reason"), [("missing", "No such file"), ("file", "Not a directory")])
async def test_a_path_that_is_no_folder_is_refused(hive: hivemem.Hive, tmp_path: Path, name: str, reason: str) -> None:
    make(tmp_path, file="1")
    with pytest.raises(hivemem.InvalidRequest, match=reason):
        await hive.workspaces.snapshot(tmp_path / name, workspace_id=W)
