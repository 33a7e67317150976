"""Bytes to store, and the ways the tests store them."""

import hashlib
import random
from collections.abc import AsyncIterator
from typing import Final, TypeVar

from hivemem_artifacts.ports import PIECE_BYTES, BlobStore, Staging

ItemT = TypeVar("ItemT")

TENANT: Final = "acme"
UPLOAD: Final = "01JABCDEFGHJKMNPQRSTVWXYZ0"


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def some_bytes(size: int, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(size)


async def put(store: BlobStore, data: bytes, tenant: str = TENANT) -> str:
    blob = digest(data)
    await store.put(tenant, blob, data)
    return blob


async def whole(store: BlobStore, blob: str, tenant: str = TENANT) -> bytes:
    """Read a whole blob, piece by piece."""
    data = b""
    while piece := await store.read(tenant, blob, len(data), PIECE_BYTES):
        data += piece
    return data


async def append_all(staging: Staging, data: bytes) -> None:
    for offset in range(0, len(data), PIECE_BYTES):
        await staging.append(data[offset : offset + PIECE_BYTES])


async def staged(store: BlobStore, data: bytes, upload_id: str = UPLOAD) -> Staging:
    staging = await store.open_staging(upload_id)
    await append_all(staging, data)
    return staging


async def everything(items: AsyncIterator[ItemT]) -> list[ItemT]:
    return [item async for item in items]
