"""The port of the blob store: what the worker may ask of the place where bytes are kept, and what every adapter
promises.

A blob is bytes under a name, apart for each tenant; it appears whole or not at all, and never changes. Its name is the
sha256 of its bytes, and in a later life, after it was collected, that and the number of the life: who collects the old
one, however late, cannot take away the new one. Bytes on their way to become one are staged under the id of their
upload. Blocking work runs in bounded pools of threads, and no call holds more than a few pieces in memory, however
large the blob is.

Every call may raise `Unavailable`: the store cannot be reached, or its disk is full (the detail says so). The call may
then be made again, with the same arguments; nothing that was there before is lost or half done.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Final, NamedTuple, Protocol

PIECE_BYTES: Final = 8 * 1024 * 1024
"""The most that one `append`, `put` or `read` carries."""

NAMES_PER_CALL: Final = 1_000
"""The most files that one `View.add` takes."""


class Capability(NamedTuple):
    """Whether a store can do what not every store can, and if not, why, in words for the caller."""

    able: bool
    reason: str = ""


class StoredBlob(NamedTuple):
    """A blob as it stands in the store; `modified_at` in microseconds, by the store's clock, of its last writing."""

    tenant: str
    blob: str
    size: int
    modified_at: int


class StoredStaging(NamedTuple):
    """What is staged of an upload, or left over from one that was killed, with the time of its last writing."""

    upload_id: str
    modified_at: int


class ShownFile(NamedTuple):
    """A version of an artifact as people find it: `at` in microseconds."""

    name: str
    version: int
    at: int
    blob: str


class Staging(Protocol):
    """The bytes of one upload, growing at their end, hashed as they come. For one task at a time.

    A kill of the process keeps at least the first `durable` bytes; `BlobStore.open_staging` finds them again. Whoever
    opens a staging takes it over: an earlier holder, in this process or another, cannot change what the later one
    sees; its calls go unseen, or raise `Unavailable`.
    """

    @property
    def size(self) -> int:
        """How many bytes were taken so far: where the next append goes."""
        ...

    @property
    def durable(self) -> int:
        """How many of them outlive a kill, and a loss of power as far as the store itself does."""
        ...

    @property
    def usable(self) -> bool:
        """False once it cannot go on: it was closed, taken over or discarded, or the disk lost bytes. Then it is opened
        again, and may have fewer bytes."""
        ...

    @property
    def sha256(self) -> str:
        """Of the bytes taken so far, in hex."""
        ...

    async def append(self, data: bytes) -> None:
        """Take up to `PIECE_BYTES`; returns once there is room for more, which is the backpressure.

        Raises `Unavailable` with nothing taken: `size` and `sha256` are as before, the same bytes may come again.
        """
        ...

    async def flush(self) -> None:
        """Make all that was taken durable."""
        ...

    async def seal(self, tenant: str, blob: str) -> None:
        """Make the bytes the tenant's blob of that name, durable when this returns; the same one again is fine.

        The staging stays, whole, until it is discarded: a kill before the caller has noted the blob costs nothing. It
        takes no further bytes: an append is an `InvalidRequest` from now on. `Unavailable` where somebody else has
        taken the upload over.
        """
        ...

    async def close(self) -> None:
        """Make durable what was taken, as far as the store answers, and let go. Never raises; twice is fine."""
        ...


class View(Protocol):
    """A new state of what people see of a session, built up and then put in place of the old one.

    One task at a time holds the view of a session: of all processes where the store shows files, else of this one. So
    a caller that reads what it shows after `open_view` does not replace a newer state by an older one.
    """

    async def add(self, files: Sequence[ShownFile], manifest: bytes) -> None:
        """The next files, up to `NAMES_PER_CALL`, and the next piece of the manifest's text.

        A file whose blob is gone is left out: it is being deleted.
        """
        ...

    async def finish(self) -> None:
        """Replace the manifest, atomically, and take away the files that were not added. Lets go of the view."""
        ...

    async def abandon(self) -> None:
        """Leave what people see as it was, and let go. Never raises; after `finish` it does nothing."""
        ...


class BlobStore(Protocol):
    """Where bytes are kept. A `blob` is named by 64 hex digits in lower case, the sha256 of its bytes, or by them, a
    `-` and up to 16 digits, the first one not 0. Ids, tenants and names of files may hold anything that the wire lets
    through, and none of it leads out of the store."""

    @property
    def presigned(self) -> Capability:
        """Whether clients can exchange bytes with the store itself, by URLs that are good for a while."""
        ...

    @property
    def shows_files(self) -> Capability:
        """Whether a view shows files beside the manifest."""
        ...

    @property
    def largest(self) -> int:
        """The most bytes a blob can have."""
        ...

    async def check(self) -> None:
        """Make what the store needs, where it is missing, and raise `Unavailable` if it cannot be written now."""
        ...

    async def close(self) -> None:
        """Finish what is under way and let go. Stagings are closed before. `check` begins anew: a worker may start
        again."""
        ...

    async def put(self, tenant: str, blob: str, data: bytes) -> None:
        """Make `data`, up to `PIECE_BYTES`, the tenant's blob of that name, durable when this returns."""
        ...

    async def read(self, tenant: str, blob: str, offset: int, length: int) -> bytes:
        """Up to `length` bytes, at most `PIECE_BYTES`, from `offset`; fewer only where the blob ends.

        Raises `NotFound` where the blob is missing, also if it is deleted meanwhile; but what another process deletes
        may be read for a few seconds more.
        """
        ...

    async def stat(self, tenant: str, blob: str) -> StoredBlob | None: ...

    async def delete(self, tenant: str, blob: str) -> None:
        """Remove a blob; one that is not there is fine."""
        ...

    def blobs(self) -> AsyncIterator[StoredBlob]:
        """Every blob of every tenant, in no order, read page by page; what comes or goes meanwhile may be missed."""
        ...

    async def open_staging(self, upload_id: str) -> Staging:
        """Take over what is staged of an upload, which is read once to hash it, or begin it, with no bytes.

        The id is of `[0-9A-Za-z_-]{1,64}`, else `InvalidRequest`.
        """
        ...

    async def discard(self, upload_id: str) -> None:
        """Remove all that is staged of an upload; nothing being there is fine."""
        ...

    def stagings(self) -> AsyncIterator[StoredStaging]:
        """Every upload with something staged, and what kills have left behind: `discard` takes the ids of both."""
        ...

    async def presign_put(self, upload_id: str, *, seconds: int) -> str:
        """A URL to which a client may PUT the whole of an upload. `InvalidRequest` (presigned) if the store cannot."""
        ...

    async def open_presigned(self, upload_id: str, size: int) -> Staging:
        """What was PUT to the URL, read once to hash it; it takes no further bytes, and seals exactly what was hashed.

        Raises `NotFound` where nothing was PUT, and `InvalidRequest` (size), before reading, if it has another size.
        """
        ...

    async def presign_get(self, tenant: str, blob: str, *, seconds: int, file_name: str, content_type: str) -> str:
        """A URL from which a client may GET a blob, as a file of that name and type. `InvalidRequest` (presigned) if
        the store cannot. That the blob is there is not looked up."""
        ...

    async def open_view(self, tenant: str, session_id: str) -> View:
        """Begin a new state of what people see of a session; waits while another task or process holds its view."""
        ...

    async def remove_view(self, tenant: str, session_id: str) -> None:
        """Take away all that people see of a session; nothing being there is fine."""
        ...
