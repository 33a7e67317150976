"""The rules for collecting unreferenced bytes: a blob is first made unusable, then its bytes are removed."""

from dataclasses import replace

from hivemem_artifacts.entities.blobs import BLOB, Blob
from hivemem_runtime.ledger.port import Append, Decision, Heads, value_of


def collectable(blob: Blob | None, before: int) -> bool:
    """Return whether the blob has been unreferenced since before a moment, or its collection was interrupted."""
    if blob is None or blob.unreferenced_since is None:
        return False
    return blob.state == "collecting" or (blob.usable and not blob.refs and blob.unreferenced_since < before)


def begin_collection(heads: Heads, sha256: str, before: int) -> Decision:
    head = heads(BLOB, sha256)
    blob = value_of(head)
    if blob is None or not collectable(blob, before) or blob.state == "collecting":
        return []
    return [Append(BLOB, sha256, replace(blob, state="collecting"))]


def end_collection(heads: Heads, sha256: str, life: int) -> Decision:
    """Mark a blob as absent after its bytes were removed, unless a new life has begun."""
    head = heads(BLOB, sha256)
    blob = value_of(head)
    if blob is None or blob.state != "collecting" or blob.life != life:
        return []
    return [Append(BLOB, sha256, Blob("absent", blob.size, life))]


def fence_off(heads: Heads, sha256: str, life: int, size: int) -> Decision:
    """Make stray bytes in the store unusable, so that a writer that is about to commit puts them again.

    Nothing is appended if no writer can be about to commit: a new life has the number of the blob's version.
    """
    head = heads(BLOB, sha256)
    version = 0 if head is None else head.version
    if version != life or (head is not None and head.value is not None and head.value.usable):
        return []
    return [Append(BLOB, sha256, Blob("absent", size, life))]
