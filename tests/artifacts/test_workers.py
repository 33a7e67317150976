"""Several workers on the same stores: any of them can continue an upload."""

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import hivemem
from hivemem_artifacts.endpoints.upload_commits import UploadCommits
from hivemem_artifacts.endpoints.uploads import Uploads
from hivemem_artifacts.worker import ArtifactsSettings, build
from hivemem_contracts.artifacts.chunks import commit_subject
from hivemem_contracts.artifacts.operations import COMMIT, RESUME
from hivemem_contracts.artifacts.requests import CommitUpload, ResumeUpload
from hivemem_contracts.limits import ARTIFACT_CHUNK_BYTES as CHUNK
from hivemem_contracts.subjects import Sender
from hivemem_runtime.service import Call
from hivemem_runtime.worker import Worker
from hivemem_testing.process import ProcessServer
from hivemem_testing.servers import packaged_minio, packaged_nats

from .hive import Agent, Body, Refused, connect, eventually, headers_of, parts_of

DATA = os.urandom(3 * CHUNK + 100)
PARTS = [DATA[start : start + CHUNK] for start in range(0, len(DATA), CHUNK)]


@dataclass
class Two:
    first: Worker
    second: Worker
    bot: Agent

    def call(self, operation: Any, id: str = "m1") -> Call:
        return Call(Sender(self.bot.tenant, self.bot.name), operation, id)

    async def begin(self, worker: Worker) -> Body:
        """Begin an upload at this worker."""
        while True:
            upload = await self.bot.begin("a")
            if f".{member_of(worker)}." in upload["chunk_subject"]:
                return upload
            await self.bot.ask("abort", upload_id=upload["upload_id"])


def uploads(worker: Worker) -> Uploads:
    return parts_of(worker).uploads


def commits(worker: Worker) -> UploadCommits:
    return parts_of(worker).commits


def member_of(worker: Worker) -> str:
    return parts_of(worker).open_uploads.member


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[Two]:
    with packaged_nats(tmp_path / "nats") as nats:
        settings = ArtifactsSettings(nats_url=nats.url, data=tmp_path / "data")
        workers = [build(settings), build(settings)]
        for worker in workers:
            await worker.start()
        client = await connect(nats.url)
        yield Two(workers[0], workers[1], Agent(client, workers[0], "default"))
        await client.close()
        for worker in workers:
            await worker.stop()


async def test_a_commit_is_handed_to_the_worker_that_has_the_bytes(two: Two) -> None:
    upload = await two.begin(two.first)
    for index, part in enumerate(PARTS):
        await two.bot.chunk(upload, index, part)
    body = CommitUpload(upload_id=upload["upload_id"], sha256=sha256(DATA).hexdigest())
    saved = await commits(two.second).commit(two.call(COMMIT), body)
    assert (saved.size, saved.version) == (len(DATA), 1)
    assert await commits(two.first).commit(two.call(COMMIT), body) == saved
    stat = await two.bot.stat("a")
    assert stat["created_by"] == "bot"


async def test_a_refusal_of_the_other_worker_is_answered_as_it_is(two: Two) -> None:
    upload = await two.begin(two.first)
    await two.bot.chunk(upload, 0, b"abc")
    body = CommitUpload(upload_id=upload["upload_id"], sha256="0" * 64)
    with pytest.raises(hivemem.InvalidRequest, match="sha256: the bytes have"):
        await commits(two.second).commit(two.call(COMMIT), body)


async def test_a_forwarded_commit_is_of_the_upload_in_its_subject(two: Two) -> None:
    upload = await two.begin(two.first)
    subject = commit_subject("default", two.bot.name, member_of(two.first), upload["upload_id"])
    answer = await two.bot.raw(subject, b'{"upload_id": "another"}', {})
    with pytest.raises(Refused) as refused:
        headers_of(answer)
    assert (refused.value.code, refused.value.context["field"]) == (40001, "upload_id")


async def test_an_upload_goes_on_at_another_worker(two: Two) -> None:
    upload = await two.begin(two.first)
    for index in (0, 1):
        await two.bot.chunk(upload, index, PARTS[index])
    await parts_of(two.first).open_uploads.close_upload(upload["upload_id"])
    body = ResumeUpload(upload_id=upload["upload_id"])
    moved = (await uploads(two.second).resume(two.call(RESUME), body)).model_dump(mode="json")
    assert moved["next_chunk"] == 2
    assert moved["chunk_subject"] != upload["chunk_subject"]
    for index in (2, 3):
        await two.bot.chunk(moved, index, PARTS[index])
    saved = await two.bot.ask("commit", upload_id=upload["upload_id"])
    assert saved["sha256"] == sha256(DATA).hexdigest()


async def test_the_worker_that_lost_an_upload_takes_no_more_of_it(two: Two) -> None:
    upload = await two.begin(two.first)
    await two.bot.chunk(upload, 0, PARTS[0])
    await uploads(two.second).resume(two.call(RESUME), ResumeUpload(upload_id=upload["upload_id"]))

    async def refused() -> bool:
        try:
            await two.bot.chunk(upload, 1, PARTS[1])
        except Refused as error:
            return bool(error.context.get("resume"))
        return False

    await eventually(refused, "the first worker knows that it has lost it")


async def test_a_worker_that_is_gone_needs_no_handing_over(two: Two) -> None:
    upload = await two.begin(two.first)
    for index, part in enumerate(PARTS):
        await two.bot.chunk(upload, index, part)
    await two.first.stop()
    saved = await two.bot.ask("commit", upload_id=upload["upload_id"], size=len(DATA))
    assert saved["sha256"] == sha256(DATA).hexdigest()


async def test_a_worker_that_was_stopped_starts_again(two: Two) -> None:
    upload = await two.begin(two.first)
    await two.bot.chunk(upload, 0, PARTS[0])
    await two.second.stop()
    await two.first.stop()
    await two.first.start()
    resumed = await two.bot.ask("resume", upload_id=upload["upload_id"])
    assert resumed["next_chunk"] == 1
    for index in (1, 2, 3):
        await two.bot.chunk(resumed, index, PARTS[index])
    saved = await two.bot.ask("commit", upload_id=upload["upload_id"])
    assert saved["sha256"] == sha256(DATA).hexdigest()


@pytest.fixture
def own_minio(tmp_path: Path) -> Any:
    with packaged_minio(tmp_path / "minio") as server:
        yield server


async def test_an_upload_outlives_an_outage_of_the_store(own_minio: ProcessServer, tmp_path: Path) -> None:
    with packaged_nats(tmp_path / "nats") as nats:
        settings = ArtifactsSettings(
            nats_url=nats.url,
            data=tmp_path / "data",
            blobs="minio",
            minio_url=own_minio.url,
            minio_access_key=str(own_minio.address.access_key),
            minio_secret_key=str(own_minio.address.secret_key),  # type: ignore[arg-type]  # it is made a secret
        )
        worker = build(settings)
        await worker.start()
        try:
            async with hivemem.connect(nats.url, timeout_seconds=60) as hive:
                await upload_through_an_outage(own_minio, hive)
        finally:
            await worker.stop()


async def upload_through_an_outage(store: ProcessServer, hive: hivemem.Hive) -> None:
    data = os.urandom(40 * 1024 * 1024)
    down = asyncio.Event()

    def strike(done: int, total: int | None) -> None:
        if done > 6 * CHUNK and not down.is_set():
            store.kill()
            down.set()

    uploading = asyncio.create_task(hive.artifacts.upload("s1", "a", data, progress=strike))
    await down.wait()
    with pytest.raises(hivemem.Unavailable):
        await hive.with_options(timeout_seconds=2).artifacts.upload("s1", "b", b"small")
    await asyncio.to_thread(store.start)
    artifact = await uploading
    assert artifact.sha256 == sha256(data).hexdigest()
    assert [item.name for item in (await hive.artifacts.list(session_id="s1")).items] == ["a"]
    assert sha256(await hive.artifacts.read(artifact.url)).hexdigest() == artifact.sha256
