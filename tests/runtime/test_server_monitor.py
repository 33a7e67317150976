"""The monitoring pages of a nats-server, and pages that are invalid."""

import asyncio
from pathlib import Path

import pytest

from hivemem_runtime import server_monitor
from hivemem_runtime.server_monitor import ServerMonitor, get, write_error
from hivemem_testing.ports import free_port
from hivemem_testing.servers import packaged_nats

from .things import eventually


@pytest.mark.parametrize(("interval", "sync"), [("always", "always"), ("90s", "90s"), (None, "120s")])
async def test_the_sync_interval_of_a_server_is_told(tmp_path: Path, interval: str | None, sync: str) -> None:
    port = free_port()
    monitoring = f"http: 127.0.0.1:{port}"
    with packaged_nats(tmp_path, sync_interval=interval, extra_configuration=monitoring):
        monitor = ServerMonitor(f"http://127.0.0.1:{port}")
        monitor.start()
        await eventually(lambda: monitor.status() == {"sync": sync}, "it is told")
        assert await write_error(f"http://127.0.0.1:{port}") is None
        await monitor.stop()


async def test_a_stream_that_refuses_writes_is_trouble_until_it_takes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_monitor, "LOOK_SECONDS", 0.01)
    refused = b'{"status":"unavailable","error":"JetStream stream \'$G > A\' write error: no space left on device"}'
    health = b"HTTP/1.1 503 Service Unavailable\r\n\r\n" + refused

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = await reader.readline()
        writer.write(health if b"/healthz" in line else b'HTTP/1.1 200 OK\r\n\r\n{"jetstream": {}}')
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    monitor = ServerMonitor(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    monitor.start()
    await eventually(lambda: "no space left" in monitor.status().get("trouble", ""), "it is told")
    health = b'HTTP/1.1 200 OK\r\n\r\n{"status":"ok"}'
    await eventually(lambda: monitor.status() == {"sync": None}, "it is over")
    await monitor.stop()
    server.close()


@pytest.mark.parametrize("answer", [b"", b"no HTTP", b"HTTP/1.1 200 OK\r\n\r\nno JSON", b"\xff\r\n\r\n"])
async def test_what_is_no_page_is_an_error_of_the_system(answer: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    with pytest.raises(OSError, match="answers no JSON"):
        await get(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", "/varz")
    server.close()
