"""Uploads in chunks: any order within the window, repeated, truncated, corrupted, resumed, aborted."""

import asyncio
import os
from hashlib import sha256

import pytest

from hivemem_artifacts.endpoints.open_uploads import OpenUploads
from hivemem_contracts.limits import ARTIFACT_CHUNK_BYTES as CHUNK

from .conftest import LARGEST, Deployment
from .hive import Agent, Refused, eventually, parts_of

pytestmark = pytest.mark.asyncio(loop_scope="session")


def chunks_of(data: bytes) -> list[bytes]:
    return [data[start : start + CHUNK] for start in range(0, len(data), CHUNK)]


def digest(data: bytes) -> str:
    return sha256(data).hexdigest()


async def refusal_of_chunk(
    bot: Agent, upload: dict[str, object], index: int, data: bytes, **options: object
) -> Refused:
    try:
        await bot.chunk(upload, index, data, **options)  # type: ignore[arg-type]  # the options of `chunk`
    except Refused as refused:
        return refused
    raise AssertionError("the chunk was taken")


async def test_a_file_in_chunks_is_read_as_it_was(bot: Agent) -> None:
    data = os.urandom(3 * CHUNK + 5)
    upload = await bot.begin("big.bin", size=len(data), metadata={"n": 1})
    assert (upload["status"], upload["chunk_bytes"], upload["next_chunk"], upload["stored"]) == (
        "open",
        CHUNK,
        0,
        False,
    )
    for index, chunk in enumerate(chunks_of(data)):
        taken = await bot.chunk(upload, index, chunk)
        assert int(taken["Hive-Next-Chunk"]) == index + 1
    saved = await bot.ask("commit", upload_id=upload["upload_id"], sha256=digest(data))
    assert (saved["version"], saved["size"], saved["sha256"]) == (1, len(data), digest(data))
    assert saved["metadata"] == {"n": 1}
    content = await bot.ask("get", session_id="s1", name="big.bin")
    assert (content["data_base64"], content["artifact"]) == (None, saved)
    assert b"".join([await bot.read_chunk(content, index) for index in range(4)]) == data
    assert await bot.content("big.bin", offset=CHUNK - 2, length=7) == data[CHUNK - 2 : CHUNK + 5]


async def test_chunks_may_come_in_any_order_within_the_window(bot: Agent) -> None:
    data = os.urandom(8 * CHUNK)
    upload = await bot.begin("a")
    parts = list(enumerate(chunks_of(data)))
    await asyncio.gather(*(bot.chunk(upload, index, chunk) for index, chunk in [*parts[4:], *parts[3::-1]]))
    saved = await bot.ask("commit", upload_id=upload["upload_id"])
    assert saved["sha256"] == digest(data)


async def test_a_doubled_chunk_is_answered_again(bot: Agent) -> None:
    data = os.urandom(2 * CHUNK + 1)
    upload = await bot.begin("a", size=len(data))
    parts = chunks_of(data)
    for index in (0, 0, 1, 0, 1, 2, 2, 1):
        await bot.chunk(upload, index, parts[index])
    await asyncio.gather(*(bot.chunk(upload, 2, parts[2]) for _ in range(5)))
    assert (await bot.ask("commit", upload_id=upload["upload_id"]))["sha256"] == digest(data)


async def test_a_chunk_that_comes_again_while_it_is_taken_is_answered_twice(
    bot: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = os.urandom(2 * CHUNK)
    upload = await bot.begin("a", size=len(data))
    parts = chunks_of(data)
    await bot.chunk(upload, 0, parts[0])
    held = open_uploads_of(bot).opened[upload["upload_id"]]
    append, taking, go_on = held.staging.append, asyncio.Event(), asyncio.Event()

    async def slow(data: bytes) -> None:
        taking.set()
        await go_on.wait()
        await append(data)

    monkeypatch.setattr(held.staging, "append", slow)
    first = asyncio.create_task(bot.chunk(upload, 1, parts[1]))
    await taking.wait()
    second = asyncio.create_task(bot.chunk(upload, 1, parts[1]))
    waiting = held._waiting  # pyright: ignore[reportPrivateUsage]  # nothing else tells of it
    await eventually(lambda: 1 in waiting, "it came once more")
    go_on.set()
    assert (await first)["Hive-Next-Chunk"] == (await second)["Hive-Next-Chunk"] == "2"
    assert (await bot.ask("commit", upload_id=upload["upload_id"]))["sha256"] == digest(data)


async def test_a_corrupted_chunk_is_refused_and_may_be_sent_again(bot: Agent) -> None:
    data = os.urandom(CHUNK)
    upload = await bot.begin("a", size=CHUNK)
    broken = bytes([data[0] ^ 1]) + data[1:]
    said = {"Hive-Chunk-Crc32": "00000000"}
    refused = await refusal_of_chunk(bot, upload, 0, broken, headers=said)
    assert (refused.code, refused.context) == (40001, {"field": "Hive-Chunk-Crc32"})
    await bot.chunk(upload, 0, data)
    assert (await bot.ask("commit", upload_id=upload["upload_id"]))["sha256"] == digest(data)


async def test_a_truncated_chunk_is_refused(bot: Agent) -> None:
    upload = await bot.begin("a", size=2 * CHUNK)
    refused = await refusal_of_chunk(bot, upload, 0, b"x" * (CHUNK - 1))
    assert (refused.code, refused.context["field"]) == (40001, "chunk")
    refused = await refusal_of_chunk(bot, upload, 0, b"x" * (CHUNK + 1))
    assert refused.code == 41301
    await bot.chunk(upload, 0, b"x" * CHUNK)
    refused = await refusal_of_chunk(bot, upload, 1, b"")
    assert refused.context["expected"] == 1


async def test_nothing_comes_behind_a_short_chunk_until_it_is_whole(bot: Agent) -> None:
    data = b"y" * (CHUNK + 10)
    upload = await bot.begin("a")
    await bot.chunk(upload, 0, data[: CHUNK - 7])
    refused = await refusal_of_chunk(bot, upload, 1, data[CHUNK:])
    assert refused.context == {"field": "Hive-Chunk", "expected": 0}
    await bot.chunk(upload, 0, data[:CHUNK])
    await bot.chunk(upload, 1, data[CHUNK:])
    assert (await bot.ask("commit", upload_id=upload["upload_id"]))["sha256"] == digest(data)


@pytest.mark.parametrize("size", [CHUNK + 3, None])
async def test_a_shorter_last_chunk_counts_and_a_worker_that_cannot_know_it_is_the_last_asks_for_it_again(
    bot: Agent, size: int | None
) -> None:
    data = os.urandom(CHUNK + 3)
    first, last = chunks_of(data)
    upload = await (bot.begin("a") if size is None else bot.begin("a", size=size))
    await bot.chunk(upload, 0, first)
    assert (await bot.chunk(upload, 1, last))["Hive-Next-Chunk"] == "2"
    assert (await bot.ask("resume", upload_id=upload["upload_id"]))["next_chunk"] == 2
    await open_uploads_of(bot).close_upload(upload["upload_id"])
    resumed = await bot.ask("resume", upload_id=upload["upload_id"])
    assert resumed["next_chunk"] == (1 if size is None else 2)
    assert (await bot.chunk(resumed, 1, last))["Hive-Next-Chunk"] == "2"
    assert (await bot.ask("commit", upload_id=upload["upload_id"]))["sha256"] == digest(data)


async def test_a_chunk_beyond_the_window_is_refused_with_the_one_that_is_expected(bot: Agent) -> None:
    upload = await bot.begin("a")
    refused = await refusal_of_chunk(bot, upload, 8, b"x" * CHUNK)
    assert (refused.code, refused.context) == (40001, {"field": "Hive-Chunk", "expected": 0})


@pytest.mark.parametrize("value", ["", "-1", "x", "1.5", "²", "9" * 40])
async def test_a_chunk_without_a_number_is_refused(bot: Agent, value: str) -> None:
    upload = await bot.begin("a")
    refused = await refusal_of_chunk(bot, upload, 0, b"x", headers={"Hive-Chunk": value})
    assert (refused.code, refused.context["field"]) == (40001, "Hive-Chunk")


async def test_an_incomplete_upload_is_not_committed(bot: Agent) -> None:
    upload = await bot.begin("a", size=2 * CHUNK)
    await bot.chunk(upload, 0, b"x" * CHUNK)
    refused = await bot.refusal("commit", upload_id=upload["upload_id"])
    assert (refused.code, refused.context) == (40001, {"field": "size", "expected": 1})
    await bot.chunk(upload, 1, b"x" * CHUNK)
    assert (await bot.ask("commit", upload_id=upload["upload_id"]))["size"] == 2 * CHUNK


@pytest.mark.parametrize("when", ["begin", "commit"])
async def test_bytes_with_another_hash_than_said_are_refused(bot: Agent, when: str) -> None:
    wrong = {"sha256": "0" * 64}
    upload = await bot.begin("a", **(wrong if when == "begin" else {}))
    await bot.chunk(upload, 0, b"abc")
    refused = await bot.refusal("commit", upload_id=upload["upload_id"], **(wrong if when == "commit" else {}))
    assert (refused.code, refused.context["field"]) == (40001, "sha256")
    assert (await bot.refusal("stat", session_id="s1", name="a")).code == 40401


async def test_what_was_said_at_the_beginning_holds_at_the_end(bot: Agent) -> None:
    upload = await bot.begin("a", size=3, sha256=digest(b"abc"))
    await bot.chunk(upload, 0, b"abc")
    for field, value in (("size", 4), ("sha256", "0" * 64)):
        refused = await bot.refusal("commit", {"upload_id": upload["upload_id"], field: value})
        assert (refused.code, refused.context["field"]) == (40001, field)


async def test_too_large_a_file_is_refused_before_its_bytes(bot: Agent) -> None:
    refused = await bot.refusal("begin", session_id="s1", name="a", size=LARGEST + 1)
    assert (refused.code, refused.context) == (41301, {"field": "size", "limit": LARGEST, "actual": LARGEST + 1})


async def test_too_large_a_file_is_refused_as_soon_as_it_is(bot: Agent) -> None:
    upload = await bot.begin("a")
    last = LARGEST // CHUNK
    refused = await refusal_of_chunk(bot, upload, last, b"x")
    assert (refused.code, refused.context["limit"]) == (41301, LARGEST)


async def test_a_repeated_begin_and_commit_answer_the_first_result(bot: Agent) -> None:
    upload = await bot.begin("a", id="m1", size=3)
    await bot.chunk(upload, 0, b"abc")
    again = await bot.begin("a", id="m1", size=3)
    assert (again["upload_id"], again["next_chunk"]) == (upload["upload_id"], 1)
    saved = await bot.ask("commit", upload_id=upload["upload_id"], id="m2")
    assert await bot.ask("commit", upload_id=upload["upload_id"], id="m2") == saved
    assert await bot.ask("commit", upload_id=upload["upload_id"], id="m3") == saved
    resumed = await bot.ask("resume", upload_id=upload["upload_id"])
    assert (resumed["status"], resumed["artifact"]) == ("committed", saved)
    assert [item["version"] for item in await bot.pages("versions", name="a")] == [1]


async def test_two_commits_at_once_make_one_version(bot: Agent) -> None:
    upload = await bot.begin("a")
    await bot.chunk(upload, 0, b"abc")
    one, other = await asyncio.gather(*(bot.ask("commit", upload_id=upload["upload_id"]) for _ in range(2)))
    assert one == other
    assert [item["version"] for item in await bot.pages("versions", name="a")] == [1]


async def test_bytes_that_are_there_need_not_be_sent(bot: Agent) -> None:
    data = os.urandom(100)
    await bot.save("a", data)
    upload = await bot.begin("b", sha256=digest(data), size=100)
    assert upload["stored"]
    saved = await bot.ask("commit", upload_id=upload["upload_id"])
    assert (saved["name"], saved["size"], await bot.content("b")) == ("b", 100, data)
    assert not (await bot.begin("c", sha256=digest(data), size=99))["stored"]
    stranger = bot.called("bot")
    stranger.tenant = bot.tenant + "x"
    assert not (await stranger.begin("b", sha256=digest(data)))["stored"]


async def test_an_empty_upload_is_an_empty_file(bot: Agent) -> None:
    upload = await bot.begin("a", size=0)
    assert (await bot.ask("commit", upload_id=upload["upload_id"]))["size"] == 0
    assert await bot.content("a") == b""
    content = await bot.ask("get", session_id="s1", name="a")
    assert await bot.read_chunk(content, 0) == b""


async def test_an_upload_that_was_given_up_is_gone(bot: Agent, deployment: Deployment) -> None:
    upload = await bot.begin("a")
    await bot.chunk(upload, 0, b"x" * CHUNK)
    assert (await bot.ask("abort", upload_id=upload["upload_id"]))["aborted"]
    assert not (await bot.ask("abort", upload_id=upload["upload_id"]))["aborted"]
    for operation in ("commit", "resume"):
        assert (await bot.refusal(operation, upload_id=upload["upload_id"])).code == 40401
    assert (await refusal_of_chunk(bot, upload, 1, b"x")).code == 40401
    assert upload["upload_id"] not in [staging.upload_id async for staging in deployment.store.stagings()]


async def test_an_upload_of_another_tenant_does_not_exist(bot: Agent) -> None:
    upload = await bot.begin("a")
    await bot.chunk(upload, 0, b"x")
    stranger = bot.called("bot")
    stranger.tenant = bot.tenant + "x"
    for operation in ("resume", "commit", "abort"):
        assert (await stranger.refusal(operation, upload_id=upload["upload_id"])).code == 40401
    theirs = {**upload, "chunk_subject": upload["chunk_subject"].replace(bot.tenant, stranger.tenant)}
    assert (await refusal_of_chunk(stranger, theirs, 1, b"y")).code == 40401


async def test_a_worker_that_let_an_upload_go_takes_it_up_again(bot: Agent) -> None:
    data = os.urandom(2 * CHUNK + 3)
    upload = await bot.begin("a")
    parts = chunks_of(data)
    await bot.chunk(upload, 0, parts[0])
    await open_uploads_of(bot).close_upload(upload["upload_id"])
    await bot.chunk(upload, 1, parts[1])
    resumed = await bot.ask("resume", upload_id=upload["upload_id"])
    assert resumed["next_chunk"] == 2
    await bot.chunk(resumed, 2, parts[2])
    assert (await bot.ask("commit", upload_id=upload["upload_id"]))["sha256"] == digest(data)


async def test_nothing_is_left_staged_once_it_is_committed(bot: Agent, deployment: Deployment) -> None:
    upload = await bot.begin("a")
    await bot.chunk(upload, 0, b"abc")
    await bot.ask("commit", upload_id=upload["upload_id"])

    async def gone() -> bool:
        return upload["upload_id"] not in [staging.upload_id async for staging in deployment.store.stagings()]

    await eventually(gone, "the staging is removed")


async def test_a_chunk_does_not_wait_for_ever_for_the_one_before(bot: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hivemem_artifacts.endpoints.chunk_window.CHUNK_WAIT_SECONDS", 0.05)
    upload = await bot.begin("a")
    refused = await refusal_of_chunk(bot, upload, 1, b"x" * CHUNK)
    assert (refused.code, refused.context["expected"]) == (50301, 0)


async def test_an_upload_that_nothing_comes_of_is_let_go_of_and_taken_up_again(
    bot: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = os.urandom(CHUNK + 5)
    parts = chunks_of(data)
    upload = await bot.begin("a")
    await bot.chunk(upload, 0, parts[0])
    monkeypatch.setattr("hivemem_artifacts.endpoints.open_uploads.IDLE_SECONDS", -1.0)
    await open_uploads_of(bot).close_idle()
    assert upload["upload_id"] not in open_uploads_of(bot).opened
    await bot.chunk(upload, 1, parts[1])
    assert (await bot.ask("commit", upload_id=upload["upload_id"]))["sha256"] == digest(data)


async def test_the_stillest_upload_is_let_go_of_where_there_are_too_many(
    bot: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    await open_uploads_of(bot).close()
    monkeypatch.setattr("hivemem_artifacts.endpoints.open_uploads.OPEN_UPLOADS", 2)
    uploads = [await bot.begin(name) for name in "abc"]
    for index in range(2):
        for upload in uploads:
            await bot.chunk(upload, index, os.urandom(CHUNK) if index == 0 else b"end")
            assert len(open_uploads_of(bot).opened) <= 2
    for upload in uploads:
        assert (await bot.ask("commit", upload_id=upload["upload_id"]))["size"] == CHUNK + 3


async def test_nothing_is_closed_while_a_chunk_is_being_written(bot: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file descriptor could belong to another file by the time of the write."""
    upload = await bot.begin("a")
    await bot.chunk(upload, 0, os.urandom(CHUNK))
    held = open_uploads_of(bot).opened[upload["upload_id"]]
    append, taking, go_on = held.staging.append, asyncio.Event(), asyncio.Event()

    async def slow(data: bytes) -> None:
        taking.set()
        await go_on.wait()
        assert held.staging.usable
        await append(data)

    monkeypatch.setattr(held.staging, "append", slow)
    chunk = asyncio.create_task(bot.chunk(upload, 1, b"end"))
    await taking.wait()
    ending = asyncio.create_task(bot.ask("abort", upload_id=upload["upload_id"]))
    await eventually(lambda: held.upload_id not in open_uploads_of(bot).opened, "it is let go of")
    for _ in range(3):  # every earlier job of the thread has finished
        await held.staging.flush()
    assert held.staging.usable
    go_on.set()
    await chunk
    assert (await ending)["aborted"]
    assert not held.staging.usable


async def test_where_all_are_busy_one_more_is_refused_for_now(bot: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    await open_uploads_of(bot).close()
    monkeypatch.setattr("hivemem_artifacts.endpoints.open_uploads.OPEN_UPLOADS", 1)
    first, second = await bot.begin("a"), await bot.begin("b")
    await bot.chunk(first, 0, b"abc")
    async with open_uploads_of(bot).opened[first["upload_id"]].lock:
        refused = await refusal_of_chunk(bot, second, 0, b"x")
    assert (refused.code, refused.error["retryable"]) == (42901, True)
    await bot.chunk(second, 0, b"x")


async def test_a_staging_that_is_spoiled_is_opened_again(bot: Agent) -> None:
    data = os.urandom(CHUNK + 5)
    parts = chunks_of(data)
    upload = await bot.begin("a")
    await bot.chunk(upload, 0, parts[0])
    await open_uploads_of(bot).opened[upload["upload_id"]].staging.close()
    refused = await refusal_of_chunk(bot, upload, 1, parts[1])
    assert (refused.code, refused.error["retryable"]) == (50301, True)
    await bot.chunk(upload, 1, parts[1])
    assert (await bot.ask("commit", upload_id=upload["upload_id"]))["sha256"] == digest(data)


def open_uploads_of(bot: Agent) -> OpenUploads:
    return parts_of(bot.worker).open_uploads
