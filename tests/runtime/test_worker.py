"""The life of a worker: servers that start late, are too old or fail; health; an orderly stop."""

import asyncio
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import nats.errors
import orjson
import pytest
from nats.aio.client import Client

from hivemem_contracts.errors import Unavailable
from hivemem_contracts.operations import ServiceContract
from hivemem_contracts.sessions.operations import SESSIONS
from hivemem_runtime import worker as module
from hivemem_runtime.background import Background
from hivemem_runtime.bus.commands.partitions import Partitions
from hivemem_runtime.bus.connection import ServerTooOld, connect
from hivemem_runtime.bus.feed.announcer import Announcer
from hivemem_runtime.health import HealthServer
from hivemem_runtime.service import Service
from hivemem_runtime.settings import SettingsError
from hivemem_runtime.worker import Parts, Worker, start_with_patience
from hivemem_sessions.worker import build
from hivemem_testing.packaged import packaged_nats
from hivemem_testing.ports import free_port
from hivemem_testing.process import ProcessServer

from .asking import SECONDS, ask, get, settings
from .things import THING, eventually, open_ledger


async def test_a_worker_waits_for_a_server_that_comes_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONGEST_START_RETRY_SECONDS", 0.05)
    port = free_port()
    worker = build(settings(f"nats://127.0.0.1:{port}", tmp_path))
    starting = asyncio.create_task(start_with_patience(worker, asyncio.Event()))
    health = await worker.probe()
    assert (health["ready"], health["connected"], health["store_ready"]) == (False, False, False)
    with packaged_nats(tmp_path / "nats", port) as server:
        await asyncio.wait_for(starting, SECONDS)
        caller = await connect(server.url, "caller")
        assert (await ask(caller, "create", app_name="a", user_id="u"))["revision"] == 1
        assert (await worker.probe())["ready"] is True
        await caller.close()
        await worker.stop()


async def test_waiting_ends_when_the_worker_is_stopped(tmp_path: Path) -> None:
    worker = build(settings(f"nats://127.0.0.1:{free_port()}", tmp_path))
    stopped = asyncio.Event()
    starting = asyncio.create_task(start_with_patience(worker, stopped))
    stopped.set()
    await asyncio.wait_for(starting, SECONDS)


async def test_waiting_ends_when_the_patience_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONGEST_START_RETRY_SECONDS", 0.01)
    worker = build(settings(f"nats://127.0.0.1:{free_port()}", tmp_path))
    with pytest.raises(Unavailable, match="cannot be reached"):
        await asyncio.wait_for(start_with_patience(worker, asyncio.Event(), 0.1), SECONDS)


async def test_a_server_that_is_too_old_is_refused_by_its_version(tmp_path: Path) -> None:
    info = {"server_id": "old", "version": "2.10.29", "proto": 1, "headers": True, "max_payload": 1_048_576}

    async def old(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"INFO " + orjson.dumps(info) + b"\r\n")
        while line := await reader.readline():
            if line.startswith(b"PING"):
                writer.write(b"PONG\r\n")
        writer.close()

    server = await asyncio.start_server(old, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    worker = build(settings(f"nats://127.0.0.1:{port}", tmp_path))
    with pytest.raises(ServerTooOld, match=r"nats-server 2\.10\.29 .* is too old: Hivemem needs 2\.14\.0 or newer"):
        await start_with_patience(worker, asyncio.Event())
    server.close()


async def test_a_start_that_failed_half_way_can_be_tried_again(
    bus: ProcessServer, caller: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LONGEST_START_RETRY_SECONDS", 0.01)
    start, failures = Partitions.start, [1, 2]

    async def sometimes(partitions: Partitions) -> None:
        if failures:
            failures.pop()
            raise Unavailable("JetStream is away", retry_after_ms=1)
        await start(partitions)

    monkeypatch.setattr(Partitions, "start", sometimes)
    worker = build(settings(bus.url, tmp_path))
    await start_with_patience(worker, asyncio.Event())
    assert await ask(caller, "create", session_id="s1", app_name="a", user_id="u")

    async def told_once() -> bool:
        told = (await worker.probe())["announcer"]
        return (told["queued"], told["published"]) == (0, 1)

    await eventually(told_once, "it is told once")
    await worker.stop()


async def test_an_operation_that_nothing_serves_is_a_fault_of_the_build(tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path / "t.db")
    with pytest.raises(RuntimeError, match=r"sessions does nothing for .*sessions\.create"):
        Worker(
            settings("nats://127.0.0.1:1", tmp_path),
            Parts(Service(SESSIONS, ledger), ledger, Announcer(ledger, [THING])),
        )


def idle_worker(bus: str, directory: Path, *background: Background) -> Worker:
    ledger = open_ledger(directory / "t.db")
    service = Service(ServiceContract("nothing", "Does nothing.", ()), ledger)
    return Worker(settings(bus, directory), Parts(service, ledger, Announcer(ledger, [THING]), background=background))


async def test_a_worker_without_reactions_has_none(bus: ProcessServer, tmp_path: Path) -> None:
    worker = idle_worker(bus.url, tmp_path)
    await worker.start()
    health = await worker.probe()
    assert health["ready"]
    assert "reactions" not in health
    await worker.stop()


async def test_readiness_follows_the_store_and_the_bus(
    bus: ProcessServer, caller: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PROBE_SECONDS", 0.3)
    worker = build(settings(bus.url, tmp_path))
    await worker.start()
    server = HealthServer("127.0.0.1", 0, {worker.name: worker.probe})
    address = await server.start()
    code, body = await get(address, "/readyz")
    assert (code, body["workers"]["sessions"]["store_ready"]) == (200, True)
    assert set(body["workers"]["sessions"]) >= {"announcer", "commands", "reactions", "requests", "connected", "store"}
    with closing(sqlite3.connect(tmp_path / "data" / "sessions.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        code, body = await get(address, "/readyz")
        assert (code, body["ready"], body["workers"]["sessions"]["store_ready"]) == (503, False, False)
        assert (await get(address, "/healthz"))[0] == 200
        other.execute("ROLLBACK")

    async def is_ready() -> bool:
        return (await get(address, "/readyz"))[0] == 200

    await eventually(is_ready, "it is ready again")
    bus.kill()

    async def is_cut_off() -> bool:
        code, body = await get(address, "/readyz")
        return code == 503 and body["workers"]["sessions"]["connected"] is False

    await eventually(is_cut_off, "it knows that the bus is gone")
    bus.start()
    await eventually(is_ready, "it is ready again")
    await server.stop()
    await worker.stop()


async def test_health_is_told_on_the_bus_too(bus: ProcessServer, caller: Client, tmp_path: Path) -> None:
    worker = build(settings(bus.url, tmp_path))
    await worker.start()
    stats = orjson.loads((await caller.request("$SRV.STATS.sessions")).data)
    health = stats["endpoints"][0]["data"]["health"]
    assert (health["ready"], health["connected"], health["store"]) == (True, True, "sqlite")
    assert (health["announcer"]["queued"], health["announcer"]["published"]) == (0, 0)
    await worker.stop()


class Stubborn(Background):
    def __init__(self, fault: BaseException, *, at_start: bool = False) -> None:
        self._fault = fault
        self._at_start = at_start

    async def start(self, client: Client) -> None:
        assert client.is_connected
        if self._at_start:
            raise self._fault

    async def stop(self) -> None:
        raise self._fault


@pytest.mark.parametrize("fault", [RuntimeError("not me"), asyncio.CancelledError()], ids=["fault", "cancellation"])
async def test_a_part_that_does_not_stop_does_not_hold_the_others(
    bus: ProcessServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], fault: BaseException
) -> None:
    """This holds for a part that is cancelled from inside, too, as by a client whose connection is lost."""
    worker = idle_worker(bus.url, tmp_path, Stubborn(fault))
    await worker.start()
    await worker.stop()
    assert "part did not stop cleanly" in "".join(capsys.readouterr())
    health = await worker.probe()
    assert (health["connected"], health["store_ready"]) == (False, False)


async def test_who_keeps_requests_waiting_lets_them_go_before_anything_is_stopped(
    bus: ProcessServer, tmp_path: Path
) -> None:
    told: list[str] = []

    class Part(Background):
        async def start(self, client: Client) -> None:
            told.append("started")

        async def stop(self) -> None:
            told.append("stopped")

    ledger = open_ledger(tmp_path / "t.db")
    service = Service(ServiceContract("nothing", "Does nothing.", ()), ledger)
    parts = Parts(
        service,
        ledger,
        Announcer(ledger, [THING]),
        background=(Part(),),
        leaving=(lambda: told.append("left"),),
    )
    worker = Worker(settings(bus.url, tmp_path), parts)
    await worker.start()
    await worker.stop()
    assert told == ["started", "left", "stopped"]


async def test_what_is_made_only_once_outlives_a_start_that_failed(bus: ProcessServer, tmp_path: Path) -> None:
    told: list[str] = []
    failures = [Unavailable("not yet", retry_after_ms=1)]

    class Part(Background):
        async def start(self, client: Client) -> None:
            told.append("started")
            if failures:
                raise failures.pop()

        async def stop(self) -> None:
            told.append("stopped")

    async def close() -> None:
        told.append("closed")

    ledger = open_ledger(tmp_path / "t.db")
    service = Service(ServiceContract("nothing", "Does nothing.", ()), ledger)
    announcer = Announcer(ledger, [THING])
    worker = Worker(
        settings(bus.url, tmp_path), Parts(service, ledger, announcer, background=(Part(),), closing=(close,))
    )
    with pytest.raises(Unavailable):
        await worker.start()
    await worker.start()
    await worker.stop()
    assert told == ["started", "started", "stopped", "closed"]


@pytest.mark.parametrize(
    "fault", [nats.errors.TimeoutError(), asyncio.CancelledError()], ids=["timeout", "cancellation"]
)
async def test_a_bus_that_fails_during_the_start_is_a_reason_to_try_again(
    bus: ProcessServer, tmp_path: Path, fault: BaseException
) -> None:
    with pytest.raises(Unavailable):
        await idle_worker(bus.url, tmp_path, Stubborn(fault, at_start=True)).start()


async def test_a_store_without_its_driver_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hivemem_runtime.ledger.mongo", None)
    with pytest.raises(SettingsError, match=r"HIVEMEM_STORE=mongo needs a driver .*hivemem-sessions\[mongo\]"):
        build(settings("nats://127.0.0.1:1", tmp_path, store="mongo"))
