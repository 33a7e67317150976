"""The few calls of S3 that are needed, each of which blocks, in the words and with the errors of the port."""

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
from hivemem_artifacts.adapters.objects.joining import Joining
from hivemem_artifacts.adapters.objects.requests import Requests, checksum
from hivemem_contracts.errors import NotFound
from hivemem_contracts.identifiers import microseconds_from_time

CONNECT_SECONDS: Final = 3.0
READ_SECONDS: Final = 30.0
"""How long the store may be silent."""

_MADE: Final = ("BucketAlreadyExists", "BucketAlreadyOwnedByYou")


class StoredObject(NamedTuple):
    """`etag` names these very bytes under the key."""

    key: str
    size: int
    etag: str
    modified_at: int


class Access(NamedTuple):
    """Where the store is, for the worker and for its clients, which may know it by another address."""

    url: str
    public_url: str
    access_key: str
    secret_key: str


class Bucket:
    """One bucket. Keys hold nothing that needs escaping twice."""

    def __init__(self, access: Access, name: str, connections: int) -> None:
        self._name = name
        # A connection that went stale while the store was restarted is opened anew; what is slow is not asked again.
        # A store that is starting asks to come again in two minutes: who called decides about that.
        retries = Retry(
            total=2, connect=2, read=1, status=0, other=0, backoff_factor=0.1, respect_retry_after_header=False
        )
        pool = PoolManager(
            maxsize=connections, retries=retries, timeout=Timeout(connect=CONNECT_SECONDS, read=READ_SECONDS)
        )
        self._pool = pool
        self._access = access
        self._client = _client(access.url, access, pool)
        self._requests = Requests(self._client, pool, Credentials(access.access_key, access.secret_key), name)

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
        """A range, or nothing past the end. With an `etag` of those very bytes, else `Changed`."""
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
        """A small object."""
        return self.get(key, 0, 0)

    def stat(self, key: str) -> StoredObject | None:
        try:
            with translated():
                return _stored(self._client.stat_object(self._name, key))
        except NotFound:
            return None

    def objects(self, prefix: str) -> Generator[StoredObject]:
        """In the order of the keys."""
        with translated():
            for found in self._client.list_objects(self._name, prefix=prefix, recursive=True):
                yield _stored(found)

    def join(self, key: str) -> Joining:
        """Begin to make one object of others."""
        with translated():
            return Joining(self._requests, self._name, key)

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
        """`headers` are those that the answer shall have."""
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
        """A client whose URLs are for the clients of the fleet; it signs, and never speaks to the store itself."""
        if self._access.public_url == self._access.url:
            return self._client
        region = self._requests.region  # it is in what is signed, and only the store knows it
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
