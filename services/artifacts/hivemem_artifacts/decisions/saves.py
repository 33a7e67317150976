"""Saving a version, and the bytes that it needs: they must be in the store before it is committed, and stay there."""

from typing import Any, NamedTuple

from hivemem_artifacts.entities.artifacts import ARTIFACT, ArtifactRecord
from hivemem_artifacts.entities.blobs import BLOB, Blob, blob_name
from hivemem_artifacts.entities.deletions import DELETION
from hivemem_contracts.errors import HiveError, Unavailable
from hivemem_runtime.ledger.port import Append, Decision, Head, Heads, value_of

DELETION_RETRY_MS = 50


class BytesGone(HiveError):
    """The bytes were collected, or fenced off, since they were looked at: make sure of them again. Never answered."""

    retryable = True


class Bytes(NamedTuple):
    """Where bytes are, or are to be put, as of a look at their blob. `seen` is the blob's version then; `there` says
    that they need not be put."""

    sha256: str
    size: int
    life: int
    seen: int
    there: bool

    @property
    def blob(self) -> str:
        return blob_name(self.sha256, self.life)


def look(head: Head[Blob] | None, sha256: str, size: int) -> Bytes:
    """What a saver does about its bytes: use those that are there, or begin a new life of them.

    The number of a new life is the version that the blob had before it. A blob never has a version twice, so whoever
    fences it off knows that nobody will use what lies there under older numbers.
    """
    if head is None or head.value is None:
        seen = 0 if head is None else head.version
        return Bytes(sha256, size, seen, seen, there=False)
    if head.value.usable:
        return Bytes(sha256, size, head.value.life, head.version, there=True)
    return Bytes(sha256, size, head.version, head.version, there=False)


def save_version(
    heads: Heads, place: str, found: Bytes, content_type: str, metadata: dict[str, Any], now: int
) -> Decision:
    """The next version, and one more use of its bytes."""
    del now
    require_not_deleting(heads, place)
    blob = _used(heads(BLOB, found.sha256), found)
    record = ArtifactRecord(blob_name(found.sha256, blob.life), found.size, found.sha256, content_type, dict(metadata))
    return [Append(ARTIFACT, place, record), Append(BLOB, found.sha256, blob)]


def _used(head: Head[Blob] | None, found: Bytes) -> Blob:
    """The blob with one more use; `BytesGone` unless its bytes are surely in the store."""
    blob = value_of(head)
    if blob is not None and blob.usable:
        # Whoever put them: if that was not us, ours are another life that nobody uses, and are collected.
        return Blob("present", blob.size, blob.life, blob.refs + 1)
    if found.there or (0 if head is None else head.version) != found.seen:
        raise BytesGone("the bytes have to be put again")
    return Blob("present", found.size, found.life, 1)


def require_not_deleting(heads: Heads, place: str) -> None:
    head = heads(DELETION, place)
    if head is not None and head.value is not None and head.value.running:
        raise Unavailable("a deletion of this file is under way", retry_after_ms=DELETION_RETRY_MS)
