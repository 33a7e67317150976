"""A small server for `/v1/embeddings` with scripted answers, over a real socket."""

import asyncio
import base64
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np


class Answer(NamedTuple):
    status: int = 200
    body: bytes = b""
    headers: tuple[str, ...] = ()


class Hang(NamedTuple):
    """Sends no answer until the server ends."""


class Hangup(NamedTuple):
    """Closes the connection instead of an answer."""


Told = Answer | Hang | Hangup | Callable[[dict[str, Any]], Answer]


class Request(NamedTuple):
    path: str
    headers: dict[str, str]
    body: dict[str, Any]


class Endpoint:
    """Gives the scripted answers in order, then good embeddings."""

    def __init__(self, *told: Told) -> None:
        self.requests: list[Request] = []
        self._told = list(told)
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"

    async def __aenter__(self) -> "Endpoint":
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._server.wait_closed()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while await self._answered(reader, writer):
                    pass
        finally:
            self._connections.discard(task)
            writer.close()

    async def _answered(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
        body = json.loads(await reader.readexactly(int(headers["content-length"])))
        self.requests.append(Request(head[0].split(" ")[1], headers, body))
        told = self._told.pop(0) if self._told else good
        if isinstance(told, Hang):
            await asyncio.Event().wait()
        if isinstance(told, Hang | Hangup):
            return False
        answer = told if isinstance(told, Answer) else told(body)
        lines = [f"HTTP/1.1 {answer.status} Told", f"Content-Length: {len(answer.body)}", *answer.headers]
        writer.write("\r\n".join([*lines, "", ""]).encode() + answer.body)
        await writer.drain()
        return True


def embedding_of(text: str) -> list[float]:
    return [float(len(text)), 0.5, -0.25]


def good(body: dict[str, Any]) -> Answer:
    return embeddings([embedding_of(text) for text in body["input"]], packed=body["encoding_format"] == "base64")


def embeddings(rows: Sequence[Sequence[float]], *, packed: bool = False, backwards: bool = False) -> Answer:
    data = [
        {
            "object": "embedding",
            "index": index,
            "embedding": base64.b64encode(np.array(row, "<f4").tobytes()).decode() if packed else list(row),
        }
        for index, row in enumerate(rows)
    ]
    return Answer(body=json.dumps({"object": "list", "data": data[::-1] if backwards else data}).encode())
