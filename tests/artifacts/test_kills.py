"""After kill -9 at any step nothing acknowledged is lost or duplicated, and the view for people is right."""

import asyncio
import os
import random
import sys
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson
import pytest

import hivemem
from hivemem_artifacts.worker import ArtifactsSettings, open_store
from hivemem_contracts.limits import ARTIFACT_CHUNK_BYTES as CHUNK
from hivemem_sessions.worker import SessionsSettings
from hivemem_sessions.worker import build as build_sessions
from hivemem_testing.contract import Address, Server
from hivemem_testing.ports import free_port
from hivemem_testing.process import ProcessServer, Program
from hivemem_testing.servers import packaged_nats
from hivemem_testing.waiting import eventually

from .conftest import blob_settings
from .killed_worker import STEPS

pytestmark = [pytest.mark.asyncio(loop_scope="function"), pytest.mark.slow]

SEED = int(os.environ.get("HIVEMEM_TEST_SEED") or 20_261)
DATA = random.Random(SEED).randbytes(40 * CHUNK + 17)
DIGEST = sha256(DATA).hexdigest()
ROOT = Path(__file__).parents[2]


@dataclass
class Mill:
    """A private NATS server, and workers that come and go on one pair of stores."""

    nats_url: str
    directory: Path
    settings: dict[str, Any]
    workers: list[ProcessServer] = field(default_factory=list[ProcessServer])

    def worker(self, step: str = "none", count: int = 1, when: str = "before") -> ProcessServer:
        directory = self.directory / f"worker-{len(self.workers)}"
        directory.mkdir()
        port = free_port()
        environment = {
            "HIVEMEM_NATS_URL": self.nats_url,
            "HIVEMEM_HTTP_PORT": str(port),
            "PYTHONPATH": str(ROOT),
            **{f"HIVEMEM_{name.upper()}": str(value) for name, value in self.settings.items()},
        }
        command = (sys.executable, "-m", "tests.artifacts.killed_worker", step, str(count), when)
        program = Program(directory.name, "", command, port, lambda: True, environment)
        server = ProcessServer(program, Address(f"http://127.0.0.1:{port}"), directory)
        self.workers.append(server)
        server.start()
        return server

    def stop(self) -> None:
        for worker in self.workers:
            worker.stop()

    @property
    def store_settings(self) -> ArtifactsSettings:
        return ArtifactsSettings(**self.settings)


@contextmanager
def milled(tmp_path: Path, settings: dict[str, Any]) -> Generator[Mill]:
    with ExitStack() as stack:
        nats = stack.enter_context(packaged_nats(tmp_path / "nats"))
        mill = Mill(nats.url, tmp_path, settings)
        stack.callback(mill.stop)
        yield mill


@pytest.fixture
def files_mill(tmp_path: Path) -> Iterator[Mill]:
    with milled(tmp_path, {"store": "sqlite", "blobs": "filesystem", "data": tmp_path / "data"}) as mill:
        yield mill


@pytest.fixture
def objects_mill(tmp_path: Path, request: pytest.FixtureRequest, mongo_server: Server) -> Iterator[Mill]:
    settings = {
        "store": "mongo",
        "mongo_url": mongo_server.url,
        "mongo_database": f"kills_{uuid.uuid4().hex[:20]}",
        **blob_settings("minio", request),
    }
    with milled(tmp_path, settings) as mill:
        yield mill


def alive(worker: ProcessServer) -> bool:
    process = worker._process  # pyright: ignore[reportPrivateUsage]  # it says nothing of a server that ended
    return process is not None and process.poll() is None


@asynccontextmanager
async def connected(mill: Mill) -> AsyncGenerator[hivemem.Hive]:
    async with hivemem.connect(mill.nats_url, agent="bot", timeout_seconds=30, attempt_seconds=0.7) as hive:
        yield hive


async def survive(mill: Mill, doomed: ProcessServer, work: "asyncio.Task[hivemem.Artifact]") -> None:
    """Let the worker die, start another one, and let the work finish."""
    await eventually(lambda: not alive(doomed), "the step is reached, and the worker dies")
    mill.worker()
    await work


async def check(mill: Mill, hive: hivemem.Hive, artifact: hivemem.Artifact, data: bytes) -> None:
    assert (artifact.version, artifact.size, artifact.sha256) == (1, len(data), sha256(data).hexdigest())
    assert await hive.artifacts.read(artifact.url) == data
    assert [item.version for item in (await hive.artifacts.versions(session_id="s1", name="a")).items] == [1]
    store = open_store(mill.store_settings)
    await store.check()
    try:
        await eventually(lambda: shown(mill, artifact), "what people see is right")
        await hive.artifacts.gc(grace_seconds=0)
        assert [stored.blob async for stored in store.blobs()] == [artifact.sha256]
    finally:
        await store.close()
    assert (await hive.artifacts.manifest(session_id="s1")).items[0].sha256 == artifact.sha256


def shown(mill: Mill, artifact: hivemem.Artifact) -> bool:
    if mill.settings["blobs"] != "filesystem":
        return True
    found = list((mill.settings["data"] / "artifacts").rglob("manifest.json"))
    if len(found) != 1:
        return False
    manifest = orjson.loads(found[0].read_bytes())
    files = [path for path in found[0].parent.iterdir() if path.name != "manifest.json"]
    return [item["url"] for item in manifest["items"]] == [artifact.url] and len(files) == 1


STRIKES = [
    ("begin", 1, "before"),
    ("begin", 1, "after"),
    ("open", 1, "before"),
    ("append", 1, "after"),
    ("append", 2 + SEED % 37, "before"),
    ("append", 41, "after"),
    ("seal", 1, "before"),
    ("seal", 1, "after"),
    ("note", 1, "before"),
    ("note", 1, "after"),
    ("announce", 1, "before"),
    ("discard", 1, "before"),
    ("discard", 1, "after"),
    ("view", 1, "after"),
    ("finish", 1, "before"),
]


COMMIT_STRIKES = [("listing", "before"), ("listing", "after"), ("version", "before"), ("version", "after")]


@pytest.mark.parametrize(("step", "count", "when"), STRIKES)
async def test_an_upload_survives_its_worker(
    files_mill: Mill, tmp_path: Path, step: str, count: int, when: str
) -> None:
    path = tmp_path / "source"
    path.write_bytes(DATA)
    doomed = files_mill.worker(step, count, when)
    async with connected(files_mill) as hive:
        work = asyncio.create_task(hive.artifacts.upload("s1", "a", path))
        await survive(files_mill, doomed, work)
        await check(files_mill, hive, work.result(), DATA)


@pytest.mark.parametrize(
    ("step", "count", "when"), [("append", 36, "after"), ("seal", 1, "after"), ("note", 1, "after")]
)
async def test_an_upload_to_objects_survives_its_worker(
    objects_mill: Mill, tmp_path: Path, step: str, count: int, when: str
) -> None:
    path = tmp_path / "source"
    path.write_bytes(DATA)
    doomed = objects_mill.worker(step, count, when)
    async with connected(objects_mill) as hive:
        work = asyncio.create_task(hive.artifacts.upload("s1", "a", path))
        await survive(objects_mill, doomed, work)
        await check(objects_mill, hive, work.result(), DATA)


@pytest.mark.parametrize("count", [3, 20, 38])
async def test_another_worker_takes_an_upload_over(files_mill: Mill, count: int) -> None:
    """An iterator cannot be read twice, so the client keeps the bytes that the dead worker may have lost."""

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(DATA), 300_000):
            yield DATA[start : start + 300_000]

    doomed = files_mill.worker("append", count, "after")
    async with connected(files_mill) as hive:
        work = asyncio.create_task(hive.artifacts.upload("s1", "a", pieces()))
        await survive(files_mill, doomed, work)
        await check(files_mill, hive, work.result(), DATA)


@pytest.mark.parametrize(("step", "when"), [("put", "before"), ("put", "after"), ("announce", "before")])
async def test_a_small_save_survives_its_worker(files_mill: Mill, step: str, when: str) -> None:
    doomed = files_mill.worker(step, 1, when)
    async with connected(files_mill) as hive:
        work = asyncio.create_task(hive.artifacts.upload("s1", "a", b"small"))
        await survive(files_mill, doomed, work)
        await check(files_mill, hive, work.result(), b"small")


async def test_a_download_survives_its_worker(files_mill: Mill, tmp_path: Path) -> None:
    first = files_mill.worker()
    async with connected(files_mill) as hive:
        await hive.artifacts.upload("s1", "a", DATA)
        halfway = asyncio.Event()
        loop = asyncio.get_running_loop()

        def strike(done: int, total: int | None) -> None:
            if done > len(DATA) // 2 and not halfway.is_set():
                halfway.set()
                first.kill()
                loop.run_in_executor(None, files_mill.worker)

        await hive.artifacts.download("s1", "a", to=tmp_path / "out", progress=strike)
        assert halfway.is_set()
        assert (tmp_path / "out").read_bytes() == DATA


@pytest.mark.parametrize(("step", "when"), COMMIT_STRIKES)
async def test_a_commit_of_a_workspace_survives_its_worker(
    files_mill: Mill, tmp_path: Path, step: str, when: str
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "a").write_bytes(DATA)
    doomed = files_mill.worker(step, 1, when)
    async with connected(files_mill) as hive:
        work = asyncio.create_task(hive.workspaces.snapshot(source, workspace_id="w"))
        await eventually(lambda: not alive(doomed), "the step is reached, and the worker dies")
        files_mill.worker()
        done = await work
        assert [each.version for each in await hive.workspaces.versions("w")] == [done.version] == [1]
        await hive.artifacts.gc(grace_seconds=0)
        await hive.workspaces.restore("w", tmp_path / "copy")
        assert (tmp_path / "copy" / "a").read_bytes() == DATA
        await hive.workspaces.delete("w")
        await hive.artifacts.gc(grace_seconds=0)
        assert (await hive.artifacts.gc(grace_seconds=0, dry_run=True)).removed == 0
    store = open_store(files_mill.store_settings)
    assert [stored.blob async for stored in store.blobs()] == []
    await store.close()


async def test_a_large_value_is_written_although_its_worker_dies(files_mill: Mill, tmp_path: Path) -> None:
    sessions = build_sessions(SessionsSettings(nats_url=files_mill.nats_url, data=tmp_path / "sessions"))
    await sessions.start()
    doomed = files_mill.worker("append", 3, "after")
    page = "x" * 3_000_000
    async with connected(files_mill) as hive:
        session = await hive.sessions.create(app_name="app", user_id="ann", session_id="s1")
        event = hivemem.NewEvent(type="page", content=page)
        work = asyncio.create_task(hive.sessions.append(session_id="s1", event=event, state_delta={"page": page}))
        await eventually(lambda: not alive(doomed), "the step is reached, and the worker dies")
        files_mill.worker()
        assert (await work).revision == session.revision + 1
        view = await hive.sessions.get(session_id="s1", events=1)
        assert view.session.state == {"page": page}
        assert view.events[0].content == page
        assert len((await hive.artifacts.list(session_id="s1")).items) == 1
    await sessions.stop()


async def test_every_step_is_struck() -> None:
    assert {step for step, *_ in (*STRIKES, *COMMIT_STRIKES)} | {"put", "none"} == set(STEPS)
