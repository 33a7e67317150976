"""Collecting bytes that nothing uses: first nobody can come to use them any more, then they are removed."""

from dataclasses import replace

from hivemem_artifacts.entities.blobs import BLOB, Blob
from hivemem_runtime.ledger.port import Append, Decision, Heads, value_of


def collectable(blob: Blob | None, before: int) -> bool:
    """Whether its bytes have been without a use since before a moment, or a collection of them was interrupted."""
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
    """Nothing where another life has begun meanwhile."""
    head = heads(BLOB, sha256)
    blob = value_of(head)
    if blob is None or blob.state != "collecting" or blob.life != life:
        return []
    return [Append(BLOB, sha256, Blob("absent", blob.size, life))]


def fence_off(heads: Heads, sha256: str, life: int, size: int) -> Decision:
    """Bytes that lie in the store without a use: whoever put them, and was about to commit, has to put others.

    Nothing where nobody can be about to: a life is begun by who saw the blob at the version of that number."""
    head = heads(BLOB, sha256)
    version = 0 if head is None else head.version
    if version != life or (head is not None and head.value is not None and head.value.usable):
        return []
    return [Append(BLOB, sha256, Blob("absent", size, life))]
