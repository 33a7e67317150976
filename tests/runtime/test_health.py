"""Health over HTTP."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import orjson
import pytest

from hivemem_runtime import health
from hivemem_runtime.health import HealthServer


@dataclass
class Probed:
    """Two workers whose health a test sets."""

    ready: dict[str, bool] = field(default_factory=lambda: {"one": True, "two": True})
    hang: set[str] = field(default_factory=set[str])
    fail: set[str] = field(default_factory=set[str])
    address: str = ""

    async def send(self, data: bytes) -> bytes:
        parts = urlsplit(self.address)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        writer.write(data)
        answer = await asyncio.wait_for(reader.read(), 10)
        writer.close()
        return answer

    async def get(self, path: str, method: str = "GET") -> tuple[int, Any]:
        answer = await self.send(f"{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        head, _, body = answer.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        assert "Connection: close" in lines
        return int(lines[0].split(" ")[1]), orjson.loads(body) if body else None


@pytest.fixture
async def probed() -> AsyncIterator[Probed]:
    probed = Probed()

    def probe(name: str) -> Any:
        async def answer() -> dict[str, Any]:
            if name in probed.hang:
                await asyncio.Event().wait()
            if name in probed.fail:
                raise RuntimeError("a fault")
            ready = probed.ready[name]
            return {"ready": ready, "troubles": [] if ready else ["store: it is full"], "store": name}

        return answer

    server = HealthServer("127.0.0.1", 0, {name: probe(name) for name in probed.ready})
    probed.address = await server.start()
    yield probed
    await server.stop()
    await server.stop()


async def test_a_process_that_lives_says_so(probed: Probed) -> None:
    probed.ready["one"] = False
    assert await probed.get("/healthz") == (200, {"status": "ok"})


async def test_readiness_is_that_of_all_workers(probed: Probed) -> None:
    workers: dict[str, Any] = {name: {"ready": True, "troubles": [], "store": name} for name in ("one", "two")}
    healthy: dict[str, Any] = {"ready": True, "troubles": [], "workers": workers}
    assert await probed.get("/readyz") == (200, healthy)
    assert await probed.get("/readyz?verbose=1") == (200, healthy)
    probed.ready["two"] = False
    code, body = await probed.get("/readyz")
    assert (code, body["ready"], body["workers"]["one"]["ready"], body["workers"]["two"]["ready"]) == (
        503,
        False,
        True,
        False,
    )
    assert body["troubles"] == ["two: store: it is full"]
    for path in ("/status", "/"):
        code, body = await probed.get(path)
        assert (code, body["ready"]) == (200, False)


async def test_a_worker_that_hangs_or_fails_is_not_ready_and_holds_up_nobody(
    probed: Probed, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert health.PROBE_SECONDS < 3 < health.REQUEST_SECONDS
    monkeypatch.setattr(health, "PROBE_SECONDS", 0.1)
    probed.hang, probed.fail = {"one"}, {"two"}
    code, body = await probed.get("/readyz")
    assert (code, body["ready"]) == (503, False)
    assert body["troubles"] == ["one: no answer within 0.1 s", "two: it cannot be asked: RuntimeError('a fault')"]


async def test_a_head_request_has_no_body(probed: Probed) -> None:
    assert await probed.get("/readyz", "HEAD") == (200, None)


async def test_what_is_not_there_or_not_asked_well_is_told(probed: Probed) -> None:
    assert (await probed.get("/nothing"))[0] == 404
    assert (await probed.get("/healthz", "POST"))[0] == 405
    assert (await probed.send(b"hello\r\n\r\n")).startswith(b"HTTP/1.1 400 ")
    assert (await probed.send(b"\xff\xfe\r\n\r\n")).startswith(b"HTTP/1.1 400 ")


async def test_who_sends_too_much_or_nothing_is_let_go(probed: Probed, monkeypatch: pytest.MonkeyPatch) -> None:
    assert await probed.send(b"GET / HTTP/1.1\r\n" + b"x" * 20_000) == b""
    monkeypatch.setattr(health, "REQUEST_SECONDS", 0.05)
    assert await probed.send(b"GET / HT") == b""
    assert (await probed.get("/healthz"))[0] == 200


async def test_many_ask_at_once(probed: Probed) -> None:
    answers = await asyncio.gather(*(probed.get("/readyz") for _ in range(50)))
    assert {code for code, _ in answers} == {200}
