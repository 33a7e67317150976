"""Exchanges bytes directly with the object store, by URLs that a worker has signed."""

import http.client
import io
from hashlib import sha256
from typing import BinaryIO, Final
from urllib.parse import urlsplit

from hivemem_contracts.errors import InvalidRequest, Unavailable

TIMEOUT_SECONDS: Final = 60.0
BLOCK_BYTES: Final = 1024 * 1024
_OK: Final = 200


class Hashing(io.RawIOBase):
    """Reads a file from its current position, and hashes the bytes."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.digest = sha256()
        self.size = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        data = self._file.read(size)
        self.digest.update(data)
        self.size += len(data)
        return data


def put(url: str, file: BinaryIO, size: int) -> str:
    """Send a file, and return the sha256 of the sent bytes. It blocks, so call it in a thread. Raises `Unavailable`."""
    body = Hashing(file)
    response, data = _exchange("PUT", url, body, {"Content-Length": str(size)})
    if response != _OK:
        raise Unavailable(f"the object store answered {response}: {data[:300]!r}", status=response, retry_after_ms=500)
    if body.size != size:
        raise InvalidRequest("source: its size changed while it was read", field="source")
    return body.digest.hexdigest()


def _exchange(method: str, url: str, body: Hashing, headers: dict[str, str]) -> tuple[int, bytes]:
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.netloc, timeout=TIMEOUT_SECONDS, blocksize=BLOCK_BYTES)
    try:
        connection.request(method, f"{parts.path}?{parts.query}", body=body, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise Unavailable(f"the object store at {parts.netloc}: {error!r}", retry_after_ms=500) from error
    finally:
        connection.close()
