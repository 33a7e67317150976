"""The rules for workspaces: listings and versions refer to stored bytes, and release them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hivemem_artifacts.decisions.deletions import release_blobs, running_deletion
from hivemem_artifacts.decisions.saves import DELETION_RETRY_MS, BlobLookup, used_blob
from hivemem_artifacts.entities.blobs import BLOB, Blob
from hivemem_artifacts.entities.deletions import WORKSPACE_DELETION, Deletion
from hivemem_artifacts.entities.listings import LISTING, Listing
from hivemem_artifacts.entities.workspaces import WORKSPACE, WorkspaceHead, WorkspaceRecord
from hivemem_contracts.errors import HiveError, NotFound, RevisionConflict, Unavailable
from hivemem_runtime.ledger.port import Append, Decision, Head, Heads, Record, value_of


class BlobsMissing(HiveError):
    """Files of a listing are not stored, or have another size. A caller never sees this error."""

    def __init__(self, missing: Sequence[str]) -> None:
        super().__init__("bytes are missing")
        self.missing = missing


class CommitOvertaken(HiveError):
    """Another version was committed, or a listing was collected, so the commit has to be planned again. A caller never
    sees this error."""

    retryable = True


def workspace_not_found(workspace_id: str, version: int | None = None) -> NotFound:
    which = f" version {version}" if version is not None else ""
    return NotFound(f"workspace {workspace_id!r}{which} does not exist", workspace_id=workspace_id)


def make_listing(heads: Heads, found: BlobLookup, sizes: Mapping[str, int], now: int) -> Decision:
    """Make a listing present, with a reference to the blob of each of its files. The grace period begins now."""
    listing = value_of(heads(LISTING, found.sha256))
    if listing is not None and listing.present:
        return [] if listing.refs else [Append(LISTING, found.sha256, replace(listing, unreferenced_since=now))]
    appends: list[Append[Any, Any]] = [Append(LISTING, found.sha256, Listing(present=True, unreferenced_since=now))]
    missing: list[str] = []
    for sha256, size in sizes.items():
        blob = value_of(heads(BLOB, sha256))
        if blob is None or not blob.usable or blob.size != size:
            missing.append(sha256)
        else:
            appends.append(Append(BLOB, sha256, Blob("present", size, blob.life, blob.refs + 1)))
    if missing:
        raise BlobsMissing(missing)
    own = used_blob(heads(BLOB, found.sha256), found)
    return [*appends, Append(BLOB, found.sha256, own)]


def release_listing(
    heads: Heads, listing_id: str, sizes: Mapping[str, int], now: int, before: int | None = None
) -> Decision:
    """Release the references of a listing, unless it is referenced, or was more recently than `before`."""
    listing = value_of(heads(LISTING, listing_id))
    if listing is None or not listing.present or listing.refs or listing.unreferenced_since is None:
        return []
    if before is not None and listing.unreferenced_since >= before:
        return []
    uses = dict.fromkeys([*sizes, listing_id], 1)
    return [Append(LISTING, listing_id, Listing(present=False)), *release_blobs(heads, uses, now)]


def require_version(
    workspace_id: str, head: Head[WorkspaceHead] | None, expect_version: int | None
) -> WorkspaceHead | None:
    """Return the newest version, if any. Raises `RevisionConflict` unless it is the expected one."""
    newest = value_of(head)
    actual = 0 if newest is None else newest.version
    if expect_version is not None and expect_version != actual:
        raise RevisionConflict(
            f"workspace {workspace_id!r} is at version {actual}, {expect_version} was expected",
            expected=expect_version,
            actual=actual,
        )
    return newest


def commit_version(
    heads: Heads, workspace_id: str, record: WorkspaceRecord, base: int, expect_version: int | None, now: int
) -> Decision:
    """Append the next version, and one more reference to each of its listings. It was planned against version
    `base`."""
    del now
    deletion = value_of(heads(WORKSPACE_DELETION, workspace_id))
    if deletion is not None and deletion.running:
        raise Unavailable("a deletion of this workspace is under way", retry_after_ms=DELETION_RETRY_MS)
    newest = require_version(workspace_id, heads(WORKSPACE, workspace_id), expect_version)
    if base != (0 if newest is None else newest.version):
        raise CommitOvertaken("another version was committed")
    appends: list[Append[Any, Any]] = [Append(WORKSPACE, workspace_id, record)]
    for listing_id, _ in record.listings:
        listing = value_of(heads(LISTING, listing_id))
        if listing is None or not listing.present:
            raise CommitOvertaken("a listing was collected")
        appends.append(Append(LISTING, listing_id, Listing(present=True, refs=listing.refs + 1)))
    return appends


def begin_workspace_deletion(heads: Heads, workspace_id: str, actor: str, cause: str, now: int) -> Decision:
    """Begin a deletion. Until it ends, nothing can be committed."""
    head = heads(WORKSPACE, workspace_id)
    if head is None or head.value is None:
        raise workspace_not_found(workspace_id)
    running = value_of(heads(WORKSPACE_DELETION, workspace_id))
    if running is not None and running.running:
        raise Unavailable("a deletion of this workspace is under way", retry_after_ms=DELETION_RETRY_MS)
    first = head.value.first_version
    return [Append(WORKSPACE_DELETION, workspace_id, Deletion(head.version, first - 1, now, actor, cause))]


def release_version(
    workspace_id: str, through: int, version: Record[WorkspaceRecord], heads: Heads, now: int
) -> Decision:
    """Release the listings of a version."""
    deletion = running_deletion(heads(WORKSPACE_DELETION, workspace_id), through)
    if deletion is None or version.stamp.version != deletion.released + 1:
        return []  # another worker has released it
    progress = replace(deletion, released=version.stamp.version)
    appends: list[Append[Any, Any]] = [Append(WORKSPACE_DELETION, workspace_id, progress)]
    for listing_id, _ in version.value.listings:
        listing = value_of(heads(LISTING, listing_id))
        assert listing is not None, "every reference has a listing"
        assert listing.refs > 0, "each use was counted"
        left = listing.refs - 1
        released = Listing(present=True, refs=left, unreferenced_since=None if left else now)
        appends.append(Append(LISTING, listing_id, released))
    return appends


def end_workspace_deletion(heads: Heads, workspace_id: str, through: int) -> Decision:
    deletion = running_deletion(heads(WORKSPACE_DELETION, workspace_id), through)
    return [] if deletion is None else [Append(WORKSPACE_DELETION, workspace_id, replace(deletion, running=False))]
