"""The rules for deleting an artifact: its versions release their bytes in steps, then the artifact is erased."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hivemem_artifacts.decisions.saves import require_not_deleting
from hivemem_artifacts.entities.artifacts import ARTIFACT, ArtifactRecord
from hivemem_artifacts.entities.blobs import BLOB, Blob
from hivemem_artifacts.entities.deletions import DELETION, Deletion
from hivemem_artifacts.entities.places import session_and_name
from hivemem_contracts.errors import NotFound
from hivemem_runtime.ledger.port import Append, Decision, Head, Heads, Record, value_of


def artifact_not_found(place: str, version: int | None = None) -> NotFound:
    session_id, name = session_and_name(place)
    which = f" version {version}" if version is not None else ""
    return NotFound(
        f"artifact {name!r}{which} of session {session_id!r} does not exist", session_id=session_id, name=name
    )


def begin_deletion(
    heads: Heads, place: str, actor: str, cause: str, now: int, *, saved_until: int | None = None
) -> Decision:
    """Begin a deletion. Until it ends, nothing can be saved under the name.

    An artifact with a version after `saved_until` stays, because it belongs to a later session.
    """
    head = heads(ARTIFACT, place)
    if head is None or head.value is None:
        raise artifact_not_found(place)
    require_not_deleting(heads, place)
    if saved_until is not None and head.value.created_at > saved_until:
        return []
    first = head.value.first_version
    return [Append(DELETION, place, Deletion(head.version, first - 1, now, actor, cause))]


def release_versions(
    heads: Heads, place: str, through: int, records: Sequence[Record[ArtifactRecord]], now: int
) -> Decision:
    """Release the bytes of these versions. A blob without references may be collected after the grace period."""
    deletion = running_deletion(heads(DELETION, place), through)
    if deletion is None or not records or records[0].stamp.version != deletion.released + 1:
        return []  # another worker has released these versions
    released = Append(DELETION, place, replace(deletion, released=records[-1].stamp.version))
    return [released, *release_blobs(heads, Counter(record.value.sha256 for record in records), now)]


def release_blobs(heads: Heads, uses: Mapping[str, int], now: int) -> Decision:
    """Release references to blobs, given the number of them by hash."""
    appends: list[Append[Any, Any]] = []
    for sha256, count in uses.items():
        blob = value_of(heads(BLOB, sha256))
        assert blob is not None, "every reference has a blob"
        left = blob.refs - count
        assert left >= 0, "each use was counted"
        appends.append(Append(BLOB, sha256, Blob("present", blob.size, blob.life, left, None if left else now)))
    return appends


def end_deletion(heads: Heads, place: str, through: int) -> Decision:
    deletion = running_deletion(heads(DELETION, place), through)
    return [] if deletion is None else [Append(DELETION, place, replace(deletion, running=False))]


def running_deletion(head: Head[Deletion] | None, through: int) -> Deletion | None:
    """Return the running deletion through a version, or None."""
    deletion = value_of(head)
    return deletion if deletion is not None and deletion.running and deletion.through == through else None
