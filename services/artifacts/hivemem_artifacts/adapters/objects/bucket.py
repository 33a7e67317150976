"""The S3 calls that the blob store needs, with the errors of the port. All calls block."""

from collections.abc import Generator, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from minio import Minio
from minio.credentials.credentials import Credentials
from minio.datatypes import Object
from minio.deleteobjects import DeleteObject
from minio.error import S3Error
from urllib3 import PoolManager, Retry, Timeout

from hivemem_artifacts.adapters.objects.errors import translated, unavailable
from hivemem_artifacts.adapters.objects.multipart import MultipartUpload
from hivemem_artifacts.adapters.objects.signed_requests import SignedRequests, checksum
from hivemem_contracts.errors import NotFound
from hivemem_contracts.identifiers import microseconds_from_time

CONNECT_SECONDS: Final = 3.0
READ_SECONDS: Final = 30.0
"""How long the store may be silent before a call fails."""

_MADE: Final = ("BucketAlreadyExists", "BucketAlreadyOwnedByYou")


class StoredObject(NamedTuple):
    """An object in the bucket. Its `etag` identifies the bytes."""

    key: str
    size: int
    etag: str
    modified_at: int


class Access(NamedTuple):
    """The address of the store, for the worker and for clients, and its credentials."""

    url: str
    public_url: str
    access_key: str
    secret_key: str


class Bucket:
    """One bucket. Keys contain no characters that need escaping."""

    def __init__(self, access: Access, name: str, connections: int) -> None:
        self._name = name
        # A connection that went stale in a restart of the store is opened again; a slow request is not repeated. The
        # store's Retry-After of two minutes is ignored: the caller decides when to retry.
        retries = Retry(
            total=2, connect=2, read=1, status=0, other=0, backoff_factor=0.1, respect_retry_after_header=False
        )
        pool = PoolManager(
            maxsize=connections, retries=retries, timeout=Timeout(connect=CONNECT_SECONDS, read=READ_SECONDS)
        )
        self._pool = pool
        self._access = access
        self._client = _client(access.url, access, pool)
        self._requests = SignedRequests(self._client, pool, Credentials(access.access_key, access.secret_key), name)

    def make(self) -> None:
        with translated():
            if self._client.bucket_exists(self._name):
                return
            try:
                self._client.make_bucket(self._name)
            except S3Error as error:
                if error.code not in _MADE:
                    raise

    def put(self, key: str, data: Sequence[bytes], content_type: str = "application/octet-stream") -> StoredObject:
        headers = {"Content-Type": content_type, "x-amz-checksum-crc32": checksum(data)}
        with translated():
            response = self._requests.send("PUT", key, headers=headers, body=data)
        return StoredObject(key, sum(map(len, data)), response.headers.get("etag", "").strip('"'), 0)

    def get(self, key: str, offset: int, length: int, *, etag: str | None = None) -> bytes:
        """Read a range; past the end it is empty. With an `etag`, raises `ObjectChanged` if the object has other
        bytes."""
        headers: dict[str, str | list[str] | tuple[str]] = {"If-Match": f'"{etag}"'} if etag else {}
        with translated():
            try:
                response = self._client.get_object(
                    self._name, key, offset=offset, length=length, request_headers=headers
                )
            except S3Error as error:
                if error.code == "InvalidRange":
                    return b""
                raise
            try:
                return response.read()
            finally:
                response.close()
                response.release_conn()

    def whole(self, key: str) -> bytes:
        """Read a small object completely."""
        return self.get(key, 0, 0)

    def stat(self, key: str) -> StoredObject | None:
        try:
            with translated():
                return _stored(self._client.stat_object(self._name, key))
        except NotFound:
            return None

    def objects(self, prefix: str) -> Generator[StoredObject]:
        """Yield the objects below a prefix, ordered by key."""
        with translated():
            for found in self._client.list_objects(self._name, prefix=prefix, recursive=True):
                yield _stored(found)

    def join(self, key: str) -> MultipartUpload:
        """Begin a multipart upload whose parts are copies of other objects."""
        with translated():
            return MultipartUpload(self._requests, self._name, key)

    def remove(self, key: str) -> None:
        with translated():
            self._client.remove_object(self._name, key)

    def remove_all(self, keys: Iterable[str]) -> None:
        with translated():
            failed = list(self._client.remove_objects(self._name, map(DeleteObject, keys)))
        if failed:
            raise unavailable(f"the object store cannot remove: {failed[0].code}")

    def presign_put(self, key: str, seconds: int) -> str:
        with translated():
            return self._public().presigned_put_object(self._name, key, expires=timedelta(seconds=seconds))

    def presign_get(self, key: str, seconds: int, headers: Mapping[str, str]) -> str:
        """Return a URL for downloading an object. `headers` are set in the response."""
        with translated():
            return self._public().presigned_get_object(
                self._name,
                key,
                expires=timedelta(seconds=seconds),
                response_headers={f"response-{name}": value for name, value in headers.items()},
            )

    def close(self) -> None:
        self._pool.clear()

    def _public(self) -> Minio:
        """Return a client that signs URLs for the public address. It never connects to the store itself."""
        if self._access.public_url == self._access.url:
            return self._client
        region = self._requests.region  # the region is part of the signature, and only the store knows it
        return _client(self._access.public_url, self._access, self._pool, region)


def _stored(found: Object) -> StoredObject:
    assert found.object_name is not None, "every object has a key"
    modified = microseconds_from_time(found.last_modified) if found.last_modified else 0
    return StoredObject(found.object_name, found.size or 0, found.etag or "", modified)


def _client(url: str, access: Access, pool: PoolManager, region: str | None = None) -> Minio:
    parts = urlsplit(url)
    return Minio(
        parts.netloc,
        access.access_key,
        access.secret_key,
        secure=parts.scheme == "https",
        region=region,
        http_client=pool,
    )
