"""Workspaces on the wire: what a commit refuses, what versions hold, and what garbage collection keeps."""

import asyncio
from base64 import b64encode
from hashlib import sha256
from typing import Any

import orjson
import pytest

from hivemem_artifacts.endpoints import workspace_listings
from hivemem_artifacts.endpoints.workspace_deletions import WorkspaceDeleter
from hivemem_artifacts.entities.deletions import WORKSPACE_DELETION
from hivemem_contracts.errors import Unavailable

from .hive import Agent, Body, Refused, headers_of, parts_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

W = "app"


def listed(path: str, data: bytes = b"1", /, **fields: Any) -> Body:
    return {"path": path, "sha256": sha256(data).hexdigest(), "size": len(data), **fields}


def link(path: str, target: str) -> Body:
    return listed(path, target.encode(), target=target)


async def put(bot: Agent, *blobs: bytes, workspace: str = W) -> None:
    await bot.ask(
        "workspace_save", workspace_id=workspace, blobs=[{"data_base64": b64encode(each).decode()} for each in blobs]
    )


async def commit(bot: Agent, *files: Body, workspace: str = W, **fields: Any) -> Body:
    return await bot.ask("workspace_commit", workspace_id=workspace, files=list(files), **fields)


async def paths(bot: Agent, **fields: Any) -> list[str]:
    page = await bot.ask("workspace_get", workspace_id=W, limit=1_000, **fields)
    return [item["path"] for item in page["items"]]


async def read(bot: Agent, *ranges: tuple[str, int, int]) -> bytes:
    page = await bot.ask("workspace_get", workspace_id=W)
    message = await bot.raw(page["read_subject"], orjson.dumps(ranges), {})
    headers_of(message)
    return message.data


async def collected(bot: Agent) -> int:
    found: Body = await bot.ask("gc", grace_seconds=0)
    return int(found["removed"])


async def test_versions_hold_their_files_and_say_what_changed(bot: Agent) -> None:
    await put(bot, b"1", b"22")
    first = await commit(
        bot, listed("b/x", b"1"), listed("a", b"22", mode=0o755), message="start", cycle=1, agent_id="z"
    )
    counts = [first[name] for name in ("version", "files", "bytes", "added", "changed", "removed")]
    assert counts == [1, 2, 3, 2, 0, 0]
    assert (first["message"], first["agent_id"], first["cycle"], first["created_by"]) == ("start", "z", 1, "bot")
    second = await commit(bot, listed("a", b"22", mode=0o644), link("l", "b/y"), listed("b/y", b"1"), expect_version=1)
    assert [second[name] for name in ("version", "files", "added", "changed", "removed")] == [2, 3, 2, 1, 1]
    assert await paths(bot) == ["a", "b/y", "l"]
    assert await paths(bot, version=1) == ["a", "b/x"]
    assert await paths(bot, prefix="b/") == ["b/y"]
    changes = (await bot.ask("workspace_diff", {"workspace_id": W, "from": 1, "to": 2}))["items"]
    assert [(each["path"], each["change"]) for each in changes] == [
        ("a", "changed"),
        ("b/x", "removed"),
        ("b/y", "added"),
        ("l", "added"),
    ]
    assert (changes[0]["before"]["mode"], changes[0]["after"]["mode"]) == (0o755, 0o644)
    versions = await bot.ask("workspace_versions", workspace_id=W)
    assert versions["items"] == [second, first]
    assert (await bot.ask("workspace_list"))["items"] == [second]
    assert await bot.told("workspace.>") == [("workspace.committed", 1), ("workspace.committed", 2)]
    assert await read(bot, (sha256(b"22").hexdigest(), 0, 2), (sha256(b"1").hexdigest(), 0, 1)) == b"221"


async def test_pages_of_a_long_list_continue_in_its_version(bot: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace_listings, "FILES_PER_LISTING", 3)
    await put(bot, b"1")
    names = [f"d{n % 7}/f{n:03}" for n in range(100)]
    await commit(bot, *map(listed, names))
    found, cursor = list[str](), None
    while True:
        page = await bot.ask("workspace_get", {"workspace_id": W, "limit": 7, **({"cursor": cursor} if cursor else {})})
        found += [item["path"] for item in page["items"]]
        await commit(bot, listed("other"))
        if (cursor := page["cursor"]) is None:
            break
    assert found == sorted(names)


async def test_a_repeated_commit_answers_the_first_result(bot: Agent) -> None:
    await put(bot, b"1")
    first = await commit(bot, listed("a"), id="m1")
    await commit(bot, listed("b"))
    assert await commit(bot, listed("a"), id="m1") == first
    assert await paths(bot) == ["b"]


async def test_an_expected_version_is_compared(bot: Agent) -> None:
    await put(bot, b"1")
    await commit(bot, listed("a"), expect_version=0)
    refused = await bot.refusal("workspace_commit", workspace_id=W, files=[], expect_version=0)
    assert (refused.code, refused.error["context"]) == (40902, {"expected": 0, "actual": 1})


async def test_commits_at_once_are_numbered_without_a_gap(bot: Agent) -> None:
    await put(bot, b"1")
    done = await asyncio.gather(*(commit(bot, listed(f"f{n}")) for n in range(8)))
    assert sorted(each["version"] for each in done) == list(range(1, 9))


HOSTILE: list[tuple[list[Body], str]] = [
    ([listed("/etc/passwd")], "files.0.path"),
    ([listed("../up")], "files.0.path"),
    ([listed("a/../../up")], "files.0.path"),
    ([listed("a//b")], "files.0.path"),
    ([listed("a\x00b")], "files.0.path"),
    ([listed("a\nb")], "files.0.path"),
    ([listed("C:\\a")], "files.0.path"),
    ([listed("NUL")], "files.0.path"),
    ([listed("a"), listed("a")], "files.1.path"),
    ([listed("a"), listed("a/b")], "files.1.path"),
    ([listed("a/b"), listed("a")], "files.0.path"),
    ([link("a", "b"), listed("a/c")], "files.1.path"),
    ([listed("Readme"), listed("README")], "files.1.path"),
    ([listed("A/x"), listed("a/y")], "files.1.path"),
    ([listed("stra\u00dfe"), listed("STRASSE")], "files.1.path"),
    ([listed("e\u0301")], "files.0.path"),
    ([listed(".hivemem-restore-1/a")], "files.0.path"),
    ([link("l", "/etc/passwd")], "files.0.target"),
    ([link("l", "../up")], "files.0.target"),
    ([link("a/l", "../../up")], "files.0.target"),
    ([link("l", "a/../../up")], "files.0.target"),
    ([link("l", "a/..")], "files.0.target"),
    ([link("l", "..")], "files.0.target"),
    ([{**link("l", "a"), "sha256": "0" * 64}], "files.0.sha256"),
    ([listed("a", mode=0o4755)], "files.0.mode"),
    ([listed("a", b"never uploaded")], "files"),
    ([{**listed("a"), "size": 2}], "files"),
]


@pytest.mark.parametrize(("files", "field"), HOSTILE)
async def test_a_commit_refuses_lists_that_no_folder_can_hold(bot: Agent, files: list[Body], field: str) -> None:
    await put(bot, b"1")
    refused = await bot.refusal("workspace_commit", workspace_id=W, files=files)
    assert (refused.code, refused.error["context"]["field"]) == (40001, field)
    assert "got " in refused.error["detail"]
    data = orjson.dumps(files)
    await put(bot, data)
    again = await bot.refusal("workspace_commit", workspace_id=W, list_sha256=sha256(data).hexdigest())
    assert again.code == 40001
    assert (await bot.refusal("workspace_get", workspace_id=W)).code == 40401


async def test_links_within_the_workspace_are_kept(bot: Agent) -> None:
    files = [link("a/b/l", "../../c"), link("m", "a/b/l"), link("here", ".")]
    assert (await commit(bot, *files))["files"] == 3


async def test_a_list_can_be_uploaded_as_a_blob(bot: Agent) -> None:
    await put(bot, b"1")
    data = orjson.dumps([listed(f"f{n}") for n in range(12_000)])
    upload = await bot.ask("begin", workspace_id=W, size=len(data))
    for index, start in enumerate(range(0, len(data), upload["chunk_bytes"])):
        await bot.chunk(upload, index, data[start : start + upload["chunk_bytes"]])
    stored = await bot.ask("commit", upload_id=upload["upload_id"])
    assert (stored["workspace_id"], stored["size"], stored["sha256"]) == (W, len(data), sha256(data).hexdigest())
    assert await bot.ask("commit", upload_id=upload["upload_id"]) == stored
    done = await bot.ask("workspace_commit", workspace_id=W, list_sha256=stored["sha256"])
    assert (done["files"], done["added"]) == (12_000, 12_000)
    missing = await bot.refusal("workspace_commit", workspace_id=W, list_sha256="0" * 64)
    assert (missing.code, missing.error["context"]["field"]) == (40001, "list_sha256")


async def test_an_upload_needs_one_place(bot: Agent) -> None:
    for fields in ({}, {"session_id": "s"}, {"workspace_id": W, "name": "a"}, {"workspace_id": W, "session_id": "s"}):
        assert (await bot.refusal("begin", fields)).code == 40001


async def test_nothing_of_another_tenant_is_known_claimed_or_read(bot: Agent, deployment: Any) -> None:
    other: Agent = deployment.agent()
    secret = b"of another tenant"
    await put(other, secret)
    await commit(other, listed("s", secret))
    assert await bot.ask("workspace_check", workspace_id=W, files=[listed("s", secret)]) == {
        "missing": [sha256(secret).hexdigest()]
    }
    assert (await bot.refusal("workspace_commit", workspace_id=W, files=[listed("s", secret)])).code == 40001
    await put(bot, b"1")
    await commit(bot, listed("a"))
    for ranges in ([(sha256(secret).hexdigest(), 0, 1)], [("0" * 64, 0, 1)]):
        with pytest.raises(Refused) as refused:
            await read(bot, *ranges)
        assert refused.value.code == 40401


async def test_ranges_are_checked(bot: Agent) -> None:
    await put(bot, b"1")
    await commit(bot, listed("a"))
    page = await bot.ask("workspace_get", workspace_id=W)
    digest = listed("a")["sha256"]
    for body in (b"{", b"{}", b"[1]", orjson.dumps([[digest, 0, 2]]), orjson.dumps([[digest, -1, 1]])):
        with pytest.raises(Refused) as refused:
            headers_of(await bot.raw(page["read_subject"], body, {}))
        assert refused.value.code == 40001
    with pytest.raises(Refused) as refused:
        headers_of(await bot.raw(page["read_subject"], orjson.dumps([[digest, 0, 1]] * 1_001), {}))
    assert refused.value.code == 41301


async def test_gc_keeps_what_versions_list_and_takes_what_nothing_does(bot: Agent) -> None:
    await put(bot, b"1", b"2", b"left over")
    await commit(bot, listed("a", b"1"), listed("b", b"2"))
    await commit(bot, listed("a", b"1"))
    assert await collected(bot) == 1
    assert await read(bot, (sha256(b"2").hexdigest(), 0, 1)) == b"2"
    await commit(bot, listed("a", b"1"), workspace="other")
    receipt = await bot.ask("workspace_delete", id="m1", workspace_id=W)
    assert receipt["version"] == 3
    assert await bot.ask("workspace_delete", id="m1", workspace_id=W) == {**receipt, "duplicate": True}
    assert (await bot.refusal("workspace_get", workspace_id=W)).code == 40401
    assert await collected(bot) == 2, "the other file, and the listing of both; the rest is that of the other workspace"
    assert (await bot.ask("workspace_delete", workspace_id="other"))["version"] == 2
    assert await collected(bot) == 2
    assert (await bot.told("workspace.>"))[-1] == ("workspace.deleted", 2)
    await put(bot, b"1")
    assert (await commit(bot, listed("a", b"1")))["version"] == 4


async def test_bytes_collected_before_the_commit_are_asked_for_again(bot: Agent) -> None:
    await put(bot, b"1")
    await collected(bot)
    refused = await bot.refusal("workspace_commit", workspace_id=W, files=[listed("a")])
    assert refused.error["context"]["missing"] == [sha256(b"1").hexdigest()]
    await put(bot, b"1")
    await commit(bot, listed("a"))


@pytest.mark.parametrize("step", ["_release", "_erase"])
async def test_an_interrupted_deletion_of_a_workspace_goes_on(
    bot: Agent, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    await put(bot, b"1")
    await commit(bot, listed("a"))
    done = getattr(WorkspaceDeleter, step)

    async def interrupt(self: WorkspaceDeleter, *arguments: Any) -> Any:
        raise Unavailable("the store is away", retry_after_ms=1)

    monkeypatch.setattr(WorkspaceDeleter, step, interrupt)
    assert (await bot.refusal("workspace_delete", id="m1", workspace_id=W)).code == 50301
    assert (await bot.refusal("workspace_commit", workspace_id=W, files=[])).code == 50301
    monkeypatch.setattr(WorkspaceDeleter, step, done)
    head = await bot.ledger.head(WORKSPACE_DELETION, bot.tenant, W)
    assert head is not None
    assert head.value is not None
    await parts_of(bot.worker).workspace_deleter.finish(bot.tenant, W, head.value)
    assert (await bot.ask("workspace_delete", id="m1", workspace_id=W))["version"] == 2
    assert await collected(bot) == 2
    assert (await commit(bot))["version"] == 3
