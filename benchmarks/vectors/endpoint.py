"""An endpoint with OpenAI's `/v1/embeddings` and prepared answers: an embedder that costs nothing."""

import asyncio
import base64
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import orjson

from benchmarks.vectors.corpus import Corpus

HOST: Final = "127.0.0.1"
BODY_BYTES: Final = 64 * 1024 * 1024


@asynccontextmanager
async def precomputed(corpus: Corpus) -> AsyncGenerator[str]:
    """Serve the corpus's embeddings, and yield the address of the endpoint."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                body = await reader.readexactly(_length(head))
                reply = _embeddings(corpus, orjson.loads(body)["input"])
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n")
                writer.write(b"content-length: %d\r\n\r\n%b" % (len(reply), reply))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(answer, HOST, 0, limit=BODY_BYTES)
    try:
        yield f"http://{HOST}:{server.sockets[0].getsockname()[1]}/v1"
    finally:
        server.close()


def _length(head: bytes) -> int:
    lines = head.decode("latin-1").lower().split("\r\n")
    return int(next(line.partition(":")[2] for line in lines if line.startswith("content-length:")))


def _embeddings(corpus: Corpus, texts: list[str]) -> bytes:
    rows = corpus.embeddings(texts)
    data = [{"index": at, "embedding": base64.b64encode(row.tobytes()).decode()} for at, row in enumerate(rows)]
    return orjson.dumps({"object": "list", "data": data})
