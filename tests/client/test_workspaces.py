"""A restore trusts nothing that a worker answers: no list and no bytes of a forged worker reach a path outside."""

from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from nats.aio.msg import Msg

import hivemem
from hivemem.workspaces import restores
from hivemem_contracts.artifacts.models import WorkspaceVersion
from hivemem_contracts.artifacts.replies import WorkspacePage
from hivemem_contracts.artifacts.workspace_files import WorkspaceEntry

from .fleet import Fleet

DATA = b"forged"
SUBJECT = "forged.bytes"


def entry(path: str, **fields: Any) -> WorkspaceEntry:
    plain: dict[str, Any] = {"sha256": sha256(DATA).hexdigest(), "size": len(DATA), "mode": 0o644}
    return WorkspaceEntry.model_construct(path=path, **{**plain, **fields})


def link(path: str, target: str) -> WorkspaceEntry:
    data = target.encode()
    return entry(path, sha256=sha256(data).hexdigest(), size=len(data), target=target)


def answer_with(fleet: Fleet, *entries: WorkspaceEntry, cursor: str | None = None) -> None:
    workspace = WorkspaceVersion(
        workspace_id="w",
        version=1,
        files=len(entries),
        bytes=0,
        added=0,
        changed=0,
        removed=0,
        created_by="forger",
        created_at=datetime.now(UTC),
    )
    page = WorkspacePage.model_construct(
        workspace=workspace, items=list(entries), cursor=cursor, read_subject=SUBJECT, read_bytes=1_000
    )
    fleet.answers["artifacts.workspace_get"] = lambda _: page


async def answer_bytes(fleet: Fleet, data: bytes) -> None:
    async def answer(message: Msg) -> None:
        await fleet.client.publish(message.reply, data, headers={"Hive-Chunk-Crc32": f"{crc32(data):08x}"})

    await fleet.client.subscribe(SUBJECT, cb=answer)  # pyright: ignore[reportUnknownMemberType]  # untyped futures
    await fleet.client.flush()


def seen(root: Path) -> list[tuple[str, str]]:
    """Return all paths below a folder, with the text of files."""
    return sorted((str(path.relative_to(root)), path.read_text() if path.is_file() else "") for path in root.rglob("*"))


HOSTILE = [
    [entry("/tmp/forged")],
    [entry("../forged")],
    [entry("a/../../forged")],
    [entry("a\x00b")],
    [entry("a\nb")],
    [entry("a"), entry("a")],
    [entry("a"), entry("a/b")],
    [entry("a"), entry("A")],
    [link("a", "/")],
    [link("a", "../..")],
    [link("a", "../forged")],
    [link("a", "b/../../forged")],
    [link("a", "."), entry("a/forged")],
    [entry("a", mode=0o4755)],
    [entry("a", sha256="../../forged")],
    [entry("a", size=-1)],
    [entry(".hivemem-restore-1/new/0")],
]


@pytest.mark.parametrize("entries", HOSTILE)
@pytest.mark.parametrize("exists", [True, False])
async def test_a_forged_list_writes_nothing(
    hive: hivemem.Hive, fleet: Fleet, tmp_path: Path, entries: list[WorkspaceEntry], exists: bool
) -> None:
    root = tmp_path / "parent" / "root"
    root.parent.mkdir()
    if exists:
        root.mkdir()
        (root / "mine").write_text("mine")
    before = seen(tmp_path)
    answer_with(fleet, *entries)
    with pytest.raises(hivemem.InvalidRequest):
        await hive.workspaces.restore("w", root)
    assert seen(tmp_path) == before


@pytest.mark.parametrize("data", [b"FORGED", b"short", b"much too long"])
async def test_forged_bytes_leave_the_folder_as_it_was(
    hive: hivemem.Hive, fleet: Fleet, tmp_path: Path, data: bytes
) -> None:
    (tmp_path / "a").write_text("mine")
    answer_with(fleet, entry("a"), entry("b"))
    await answer_bytes(fleet, data)
    with pytest.raises(hivemem.Internal, match="bytes"):
        await hive.workspaces.restore("w", tmp_path)
    assert seen(tmp_path) == [("a", "mine")]


async def test_a_list_without_an_end_is_refused(
    hive: hivemem.Hive, fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restores, "WORKSPACE_FILES", 3)
    answer_with(fleet, entry("a"), entry("b"), cursor="on")
    with pytest.raises(hivemem.TooLarge):
        await hive.workspaces.restore("w", tmp_path / "root")
    assert seen(tmp_path) == []
