"""Deleting a file: its versions let go of their bytes a few at a time, and what is left is erased at the end."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hivemem_artifacts.decisions.saving import require_not_deleting
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
    """From here on nothing is saved under the name until all of it is gone.

    With `saved_until`, a file that has a later version is left alone: it belongs to who came after."""
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
    """These versions let go of their bytes; what nobody uses any more may be collected after the grace time."""
    deletion = standing_deletion(heads(DELETION, place), through)
    if deletion is None or not records or records[0].stamp.version != deletion.released + 1:
        return []  # somebody else has done it
    appends: list[Append[Any, Any]] = [Append(DELETION, place, replace(deletion, released=records[-1].stamp.version))]
    for sha256, uses in Counter(record.value.sha256 for record in records).items():
        head = heads(BLOB, sha256)
        blob = value_of(head)
        assert blob is not None, "what a version uses is known"
        left = blob.refs - uses
        assert left >= 0, "each use was counted"
        appends.append(Append(BLOB, sha256, Blob("present", blob.size, blob.life, left, None if left else now)))
    return appends


def end_deletion(heads: Heads, place: str, through: int) -> Decision:
    deletion = standing_deletion(heads(DELETION, place), through)
    return [] if deletion is None else [Append(DELETION, place, replace(deletion, running=False))]


def standing_deletion(head: Head[Deletion] | None, through: int) -> Deletion | None:
    """The deletion through a version, while it is under way."""
    deletion = value_of(head)
    return deletion if deletion is not None and deletion.running and deletion.through == through else None
