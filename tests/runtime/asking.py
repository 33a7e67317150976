"""Sets up a sessions worker, sends it requests on the bus, and reads its health over HTTP."""

import asyncio
from pathlib import Path
from typing import Any

import orjson
from nats.aio.client import Client

from hivemem_sessions.worker import SessionsSettings

SECONDS = 20.0


def settings(bus: str, directory: Path, **more: Any) -> SessionsSettings:
    return SessionsSettings(nats_url=bus, data=directory / "data", **more)


async def ask(caller: Client, operation: str, **body: Any) -> dict[str, Any]:
    message = await caller.request(f"hive.req.acme.bot.sessions.{operation}", orjson.dumps(body), timeout=SECONDS)
    answer: dict[str, Any] = orjson.loads(message.data)
    return answer


async def get(address: str, path: str) -> tuple[int, dict[str, Any]]:
    host, _, port = address.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET {path} HTTP/1.1\r\n\r\n".encode())
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    return int(head.split(b" ")[1]), orjson.loads(body)
