"""Blobs as files. All functions block, so call them in a thread."""

from collections.abc import Generator
from contextlib import suppress

from hivemem_artifacts.adapters.filesystem.errors import translated
from hivemem_artifacts.adapters.filesystem.folders import Folder, closing, read_all
from hivemem_artifacts.adapters.filesystem.layout import Layout
from hivemem_artifacts.adapters.names import checked_blob, is_blob_name
from hivemem_artifacts.ports import PIECE_BYTES, StoredBlob
from hivemem_contracts.errors import InvalidRequest, NotFound
from hivemem_contracts.subjects import decode_token


def read_blob(layout: Layout, tenant: str, blob: str, offset: int, length: int) -> bytes:
    assert length <= PIECE_BYTES, "more than one piece"
    with translated():
        try:
            with layout.shard(tenant, checked_blob(blob)) as shard, closing(shard.open(blob)) as descriptor:
                return read_all(descriptor, length, offset)
        except FileNotFoundError as error:
            raise NotFound(f"the bytes {blob} are not stored", blob=blob) from error


def stat_blob(layout: Layout, tenant: str, blob: str) -> StoredBlob | None:
    with translated():
        try:
            with layout.shard(tenant, checked_blob(blob)) as shard:
                return _stored(shard, tenant, blob)
        except FileNotFoundError:
            return None


def delete_blob(layout: Layout, tenant: str, blob: str) -> None:
    """Delete a blob, without a sync. If a power loss brings it back, garbage collection finds it as unreferenced."""
    with translated():
        try:
            with layout.shard(tenant, checked_blob(blob)) as shard:
                shard.remove(blob)
        except FileNotFoundError:
            return


def stored_blobs(layout: Layout) -> Generator[StoredBlob, None, None]:
    with translated(), layout.tenants() as tenants:
        for token in tenants.folder_names():
            with suppress(InvalidRequest), tenants.folder(token) as shards:  # otherwise it is not a tenant's folder
                yield from _stored_of(shards, decode_token(token))


def _stored_of(shards: Folder, tenant: str) -> Generator[StoredBlob, None, None]:
    for name in shards.folder_names():
        with shards.folder(name) as shard:
            for blob in filter(is_blob_name, shard.names()):
                if stored := _stored(shard, tenant, blob):
                    yield stored


def _stored(shard: Folder, tenant: str, blob: str) -> StoredBlob | None:
    status = shard.status(blob)
    if status is None:
        return None
    return StoredBlob(tenant, blob, status.st_size, status.st_mtime_ns // 1_000)
