"""The rules for saving a version. Its bytes must be in the store before the commit, and its reference keeps them
there."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from hivemem_artifacts.entities.artifacts import ARTIFACT, ArtifactRecord
from hivemem_artifacts.entities.blobs import BLOB, Blob, blob_name
from hivemem_artifacts.entities.deletions import DELETION
from hivemem_contracts.errors import HiveError, Unavailable
from hivemem_runtime.ledger.port import Append, Decision, Head, Heads, value_of

DELETION_RETRY_MS = 50


class BytesGone(HiveError):
    """The bytes were collected or fenced off since the lookup, so they have to be put again. A caller never sees
    this error."""

    retryable = True


class BlobLookup(NamedTuple):
    """The blob name for some bytes, as of one lookup. `seen` is the blob's version then; `there` says that the bytes
    need no put."""

    sha256: str
    size: int
    life: int
    seen: int
    there: bool

    @property
    def blob(self) -> str:
        return blob_name(self.sha256, self.life)


def look_up(head: Head[Blob] | None, sha256: str, size: int) -> BlobLookup:
    """Return the blob to use: the existing one, or a new life.

    A new life has the number of the blob's last version. Versions never repeat, so after a fence no writer uses an
    older life.
    """
    if head is None or head.value is None:
        seen = 0 if head is None else head.version
        return BlobLookup(sha256, size, seen, seen, there=False)
    if head.value.usable:
        return BlobLookup(sha256, size, head.value.life, head.version, there=True)
    return BlobLookup(sha256, size, head.version, head.version, there=False)


def save_version(
    heads: Heads, place: str, found: BlobLookup, content_type: str, metadata: dict[str, Any], now: int
) -> Decision:
    """Append the next version, and one more reference to its bytes."""
    del now
    require_not_deleting(heads, place)
    blob = used_blob(heads(BLOB, found.sha256), found)
    record = ArtifactRecord(blob_name(found.sha256, blob.life), found.size, found.sha256, content_type, dict(metadata))
    return [Append(ARTIFACT, place, record), Append(BLOB, found.sha256, blob)]


def store_unreferenced(found: Sequence[BlobLookup], heads: Heads, now: int) -> Decision:
    """Record stored bytes before anything refers to them. The grace period begins now, also of bytes that were stored
    before."""
    appends: list[Append[Any, Any]] = []
    for lookup in found:
        blob = used_blob(heads(BLOB, lookup.sha256), lookup)
        if blob.refs == 1:
            appends.append(Append(BLOB, lookup.sha256, Blob("present", blob.size, blob.life, 0, now)))
    return appends


def used_blob(head: Head[Blob] | None, found: BlobLookup) -> Blob:
    """Return the blob with one more reference. Raises `BytesGone` unless its bytes are certainly in the store."""
    blob = value_of(head)
    if blob is not None and blob.usable:
        # If another writer put them, the bytes of this writer are an unreferenced life, which is collected.
        return Blob("present", blob.size, blob.life, blob.refs + 1)
    if found.there or (0 if head is None else head.version) != found.seen:
        raise BytesGone("the bytes must be put again")
    return Blob("present", found.size, found.life, 1)


def require_not_deleting(heads: Heads, place: str) -> None:
    head = heads(DELETION, place)
    if head is not None and head.value is not None and head.value.running:
        raise Unavailable("a deletion of this file is under way", retry_after_ms=DELETION_RETRY_MS)
