"""The port of the blob store: what the worker asks of it, and what every adapter promises.

A blob is immutable bytes under a name, separate for each tenant, and appears atomically. Its name is the SHA-256 of its
bytes. After a collection the same bytes begin a new life, whose number is added to the name, so that a late collector
cannot remove the new blob. Incoming bytes are staged under the id of their upload. Blocking work runs in bounded thread
pools, and no call holds more than a few pieces in memory.

Every call may raise `Unavailable` if the store cannot be reached or its disk is full. The call may be retried with the
same arguments; no existing data is lost or half written.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Final, NamedTuple, Protocol

PIECE_BYTES: Final = 8 * 1024 * 1024
"""The maximum size of one `append`, `put` or `read`."""

NAMES_PER_CALL: Final = 1_000
"""The maximum number of files in one `View.add`."""


class Capability(NamedTuple):
    """Whether a store supports an optional feature; if not, `reason` tells the caller why."""

    able: bool
    reason: str = ""


class StoredBlob(NamedTuple):
    """A stored blob. `modified_at` is its last write in microseconds, by the store's clock."""

    tenant: str
    blob: str
    size: int
    modified_at: int


class StoredStaging(NamedTuple):
    """The staged data of an upload, or the leftover of a killed one, with the time of its last write."""

    upload_id: str
    modified_at: int


class ShownFile(NamedTuple):
    """A version of an artifact in a view; `at` is in microseconds."""

    name: str
    version: int
    at: int
    blob: str


class Staging(Protocol):
    """The bytes of one upload, appended and hashed in order, by one task at a time.

    A kill of the process preserves at least the first `durable` bytes, which `BlobStore.open_staging` finds again.
    Opening a staging takes it over: calls of an earlier holder, in this process or another, have no effect or raise
    `Unavailable`.
    """

    @property
    def size(self) -> int:
        """Return the number of bytes so far, which is the offset of the next append."""
        ...

    @property
    def durable(self) -> int:
        """Return the number of bytes that survive a kill, and a power loss if the store itself does."""
        ...

    @property
    def usable(self) -> bool:
        """Return False once the staging was closed, taken over or discarded, or the disk lost bytes. It can then be
        opened again, perhaps with fewer bytes."""
        ...

    @property
    def sha256(self) -> str:
        """Return the SHA-256 of the bytes so far, in hexadecimal."""
        ...

    async def append(self, data: bytes) -> None:
        """Append up to `PIECE_BYTES`. It returns once there is room for more, which is the backpressure.

        On `Unavailable` nothing was appended: `size` and `sha256` are unchanged, and the same bytes may be appended
        again.
        """
        ...

    async def flush(self) -> None:
        """Make all appended bytes durable."""
        ...

    async def seal(self, tenant: str, blob: str) -> None:
        """Make the bytes the tenant's blob of that name, durable when this returns. It may be repeated.

        The staging stays complete until it is discarded, so a kill before the blob is recorded loses nothing. A later
        append raises `InvalidRequest`. Raises `Unavailable` if another holder has taken the upload over.
        """
        ...

    async def close(self) -> None:
        """Make the appended bytes durable if the store responds, and close. Never raises; may be repeated."""
        ...


class View(Protocol):
    """A new state of a session's view, built up and then published.

    One task at a time holds the view of a session: across processes if the store shows files, otherwise in this
    process. So a caller that reads the session after `open_view` never replaces a newer state by an older one.
    """

    def keep(self, name: str, version: int, links: int) -> bool:
        """Keep the links of a file, if the published state shows it with this newest version and this number of links.

        Returns False if the versions of the file have to be added.
        """
        ...

    async def add(self, files: Sequence[ShownFile], manifest: bytes) -> None:
        """Add files, at most `NAMES_PER_CALL`, and the next piece of the manifest's text.

        A file whose blob is missing is left out, because it is being deleted.
        """
        ...

    async def finish(self) -> None:
        """Publish the new state: replace the manifest atomically, then remove files that were neither added nor kept.
        Releases the view."""
        ...

    async def abandon(self) -> None:
        """Keep the published state and release the view. Never raises; does nothing after `finish`."""
        ...


class BlobStore(Protocol):
    """The blob store. A blob's name is 64 lower-case hexadecimal digits, its SHA-256, optionally followed by `-` and
    a number of up to 16 digits without leading zeros. Ids, tenants and file names may contain any text that the
    contract allows, and none of it leads out of the store."""

    @property
    def presigned(self) -> Capability:
        """Return whether clients can exchange bytes with the store directly, by temporary URLs."""
        ...

    @property
    def shows_files(self) -> Capability:
        """Return whether a view shows files beside the manifest."""
        ...

    @property
    def largest(self) -> int:
        """Return the maximum size of a blob."""
        ...

    async def check(self) -> None:
        """Create missing buckets and folders, and raise `Unavailable` if the store is not writable now."""
        ...

    async def close(self) -> None:
        """Finish running calls and close. Stagings must be closed before. A worker may start again with `check`."""
        ...

    async def put(self, tenant: str, blob: str, data: bytes) -> None:
        """Make `data`, up to `PIECE_BYTES`, the tenant's blob of that name, durable when this returns."""
        ...

    async def read(self, tenant: str, blob: str, offset: int, length: int) -> bytes:
        """Return up to `length` bytes, at most `PIECE_BYTES`, from `offset`; fewer only at the end of the blob.

        Raises `NotFound` if the blob is missing, also if it is deleted during the call. A blob deleted by another
        process may be readable for a few more seconds.
        """
        ...

    async def stat(self, tenant: str, blob: str) -> StoredBlob | None: ...

    async def delete(self, tenant: str, blob: str) -> None:
        """Remove a blob, if it exists."""
        ...

    def blobs(self) -> AsyncIterator[StoredBlob]:
        """Yield all blobs of all tenants, unordered and in pages. Concurrent changes may be missed."""
        ...

    async def open_staging(self, upload_id: str) -> Staging:
        """Take over the staged bytes of an upload, which are read once to hash them, or begin it with no bytes.

        The id must match `[0-9A-Za-z_-]{1,64}`, otherwise `InvalidRequest`.
        """
        ...

    async def discard(self, upload_id: str) -> None:
        """Remove all staged data of an upload, if there is any."""
        ...

    def stagings(self) -> AsyncIterator[StoredStaging]:
        """Yield all uploads with staged data, including leftovers of kills. `discard` takes their ids."""
        ...

    async def presign_put(self, upload_id: str, *, seconds: int) -> str:
        """Return a URL to which a client may PUT a whole upload. Raises `InvalidRequest` (presigned) if the store
        cannot."""
        ...

    async def open_presigned(self, upload_id: str, size: int) -> Staging:
        """Open the bytes that were PUT to the URL, which are read once to hash them. No bytes can be appended, and a
        seal uses exactly the hashed bytes.

        Raises `NotFound` if nothing was PUT, and `InvalidRequest` (size), before reading, if the size differs.
        """
        ...

    async def presign_get(self, tenant: str, blob: str, *, seconds: int, file_name: str, content_type: str) -> str:
        """Return a URL from which a client may GET a blob as a file of that name and type, without a check that it
        exists. Raises `InvalidRequest` (presigned) if the store cannot."""
        ...

    async def open_view(self, tenant: str, session_id: str) -> View:
        """Begin a new state of a session's view, after waiting for the task or process that holds the view."""
        ...

    async def remove_view(self, tenant: str, session_id: str) -> None:
        """Remove the view of a session, if it exists."""
        ...
