"""Health over HTTP: `/healthz` says that the process lives, `/readyz` that it can work, `/status` everything known."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import orjson
import structlog

log = structlog.get_logger("hivemem.health")

REQUEST_SECONDS: Final = 5.0
PROBE_SECONDS: Final = 2.8
"""How long a page waits for the workers; it is served within 3 s whatever hangs."""
REQUEST_BYTES: Final = 8_192
_REASONS: Final = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 503: "Unavailable"}

Probe = Callable[[], Awaitable[dict[str, Any]]]
"""What a worker knows of itself: `ready` says whether it can work, and `troubles` what keeps it from that."""


class HealthServer:
    """Three pages do not need a web framework in every worker."""

    def __init__(self, host: str, port: int, probes: dict[str, Probe]) -> None:
        self._host = host
        self._port = port
        self._probes = probes
        self._server: asyncio.Server | None = None

    async def start(self) -> str:
        """Listen, and answer the address."""
        self._server = await asyncio.start_server(self._serve, self._host, self._port, limit=REQUEST_BYTES)
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"http://{host}:{port}"

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                line = head.split(b"\r\n", 1)[0].decode("latin-1")
                code, body = await self._answer(line)
                data = orjson.dumps(body, option=orjson.OPT_INDENT_2) + b"\n"
                writer.write(
                    f"HTTP/1.1 {code} {_REASONS[code]}\r\nContent-Type: application/json\r\n"
                    f"Content-Length: {len(data)}\r\nConnection: close\r\n\r\n".encode()
                    + (b"" if line.startswith("HEAD ") else data)
                )
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return  # the caller is slow or gone
        finally:
            writer.close()

    async def _states(self) -> dict[str, dict[str, Any]]:
        """What every worker says, side by side; one that does not answer in time is not ready."""
        asked = {name: asyncio.create_task(self._state(probe)) for name, probe in self._probes.items()}
        if asked:
            await asyncio.wait(asked.values(), timeout=PROBE_SECONDS)
        states: dict[str, dict[str, Any]] = {}
        for name, task in asked.items():
            if not task.done():
                task.cancel()
            states[name] = task.result() if task.done() else _silent(f"no answer within {PROBE_SECONDS} s")
        return states

    async def _state(self, probe: Probe) -> dict[str, Any]:
        try:
            return await probe()
        except Exception as error:
            log.exception("a worker could not be probed")
            return _silent(f"it cannot be asked: {error!r}")

    async def _answer(self, line: str) -> tuple[int, dict[str, Any]]:
        parts = line.split(" ")
        if len(parts) != 3:
            return 400, {"error": "not HTTP"}
        if parts[0] not in ("GET", "HEAD"):
            return 405, {"error": "only GET"}
        path = parts[1].partition("?")[0]
        if path == "/healthz":
            return 200, {"status": "ok"}
        if path in ("/readyz", "/status", "/"):
            states = await self._states()
            ready = all(state["ready"] for state in states.values())
            troubles = [f"{name}: {text}" for name, state in states.items() for text in state["troubles"]]
            code = 200 if ready or path != "/readyz" else 503
            return code, {"ready": ready, "troubles": troubles, "workers": states}
        return 404, {"error": f"there is no {path}; try /healthz, /readyz or /status"}


def _silent(trouble: str) -> dict[str, Any]:
    return {"ready": False, "troubles": [trouble]}
