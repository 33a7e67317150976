"""The kinds of blob stores, each empty at first, and what an observer sees in them."""

import uuid
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from minio import Minio
from minio.deleteobjects import DeleteObject

from hivemem_artifacts.adapters.filesystem import FilesystemBlobs
from hivemem_artifacts.adapters.objects import ObjectBlobs
from hivemem_artifacts.ports import BlobStore
from hivemem_testing.contract import Address, Server


@dataclass(frozen=True)
class Backend:
    """A place for blobs. Each `open` returns a new store on the same place, like another process would open it."""

    open: Callable[[], BlobStore]
    holds: Callable[[], set[str]]
    """Returns the path or key of everything in the place. Empty folders do not count."""
    content: Callable[[str], bytes]
    arguments: tuple[str, ...]
    """The arguments with which `opened` opens the same store in another process."""


def opened(arguments: tuple[str, ...]) -> BlobStore:
    return FilesystemBlobs(Path(arguments[0])) if len(arguments) == 1 else ObjectBlobs(*arguments)


def filesystem(root: Path) -> Backend:
    def holds() -> set[str]:
        return {str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir() or path.is_symlink()}

    arguments = (str(root),)
    return Backend(lambda: opened(arguments), holds, lambda path: (root / path).read_bytes(), arguments)


def bucket(address: Address, name: str) -> Backend:
    client = client_of(address)

    def holds() -> set[str]:
        if not client.bucket_exists(name):
            return set()
        return {str(found.object_name) for found in client.list_objects(name, recursive=True)}

    def content(key: str) -> bytes:
        response = client.get_object(name, key)
        try:
            return response.read()
        finally:
            response.close()
            response.release_conn()

    arguments = (address.url, address.access_key, address.secret_key, name)
    return Backend(lambda: opened(arguments), holds, content, arguments)


def client_of(address: Address) -> Minio:
    parts = urlsplit(address.url)
    return Minio(parts.netloc, address.access_key, address.secret_key, secure=parts.scheme == "https")


def _filesystem(request: pytest.FixtureRequest) -> Iterator[Backend]:
    folders: pytest.TempPathFactory = request.getfixturevalue("tmp_path_factory")
    yield filesystem(folders.mktemp("blobs") / "root")


def _minio(request: pytest.FixtureRequest) -> Iterator[Backend]:
    yield from _objects(request.getfixturevalue("minio_server"), f"test-{uuid.uuid4().hex[:20]}")


def _seaweedfs(request: pytest.FixtureRequest) -> Iterator[Backend]:
    # SeaweedFS keeps several files per bucket, and their number is limited, so its tests share one bucket.
    yield from _objects(request.getfixturevalue("seaweedfs_server"), "test-blobs")


def _objects(server: Server, name: str) -> Iterator[Backend]:
    with emptied(server.address, name):
        yield bucket(server.address, name)


@contextmanager
def emptied(address: Address, name: str) -> Generator[None]:
    client = client_of(address)
    _empty(client, name)
    yield
    _empty(client, name)


def _empty(client: Minio, name: str) -> None:
    if client.bucket_exists(name):
        keys = [DeleteObject(str(found.object_name)) for found in client.list_objects(name, recursive=True)]
        assert not list(client.remove_objects(name, keys))


BACKENDS: dict[str, Callable[[pytest.FixtureRequest], Iterator[Backend]]] = {
    "filesystem": _filesystem,
    "minio": _minio,
    "seaweedfs": _seaweedfs,
}
