"""The rules of an upload: it begins, moves between workers, and is committed or aborted."""

from dataclasses import replace

from hivemem_artifacts.decisions.saves import BlobLookup, save_version, store_unreferenced
from hivemem_artifacts.entities.artifacts import ARTIFACT
from hivemem_artifacts.entities.places import place_of
from hivemem_artifacts.entities.uploads import UPLOAD, Upload
from hivemem_contracts.errors import HiveError, NotFound
from hivemem_runtime.ledger.port import Append, Decision, Heads, value_of


class Committed(HiveError):
    """The upload is committed already, so the answer is its artifact. A caller never sees this error."""


def upload_not_found(upload_id: str) -> NotFound:
    return NotFound(f"upload {upload_id!r} does not exist, or was aborted: `begin` another", upload_id=upload_id)


def open_upload(heads: Heads, upload_id: str, now: int) -> Upload:
    """Return an upload that still takes bytes. After its expiry time it counts as aborted, even before the timer
    records that."""
    head = heads(UPLOAD, upload_id)
    upload = value_of(head)
    if upload is None or upload.state == "aborted" or (upload.open and upload.expires_at <= now):
        raise upload_not_found(upload_id)
    if not upload.open:
        raise Committed(f"upload {upload_id!r} is committed")
    return upload


def begin_upload(heads: Heads, upload_id: str, upload: Upload) -> Decision:
    del heads  # the id is derived from the request, so it is new
    return [Append(UPLOAD, upload_id, upload)]


def hold_upload(heads: Heads, upload_id: str, member: str, expires_at: int, now: int) -> Decision:
    """Hold an upload: another worker takes it over, or the holder extends its expiry."""
    upload = open_upload(heads, upload_id, now)
    return [Append(UPLOAD, upload_id, replace(upload, member=member, expires_at=expires_at))]


def commit_upload(
    heads: Heads, upload_id: str, found: BlobLookup, content_type: str, now: int, *, kept_until: int
) -> Decision:
    """Append the next version of the artifact, and end the upload."""
    upload = open_upload(heads, upload_id, now)
    place = place_of(upload.session_id, upload.name)
    saved = save_version(heads, place, found, content_type, upload.metadata, now)
    before = heads(ARTIFACT, place)
    version = 1 if before is None else before.version + 1
    ended = replace(upload, state="committed", version=version, expires_at=kept_until)
    return [*saved, Append(UPLOAD, upload_id, ended)]


def commit_workspace_upload(heads: Heads, upload_id: str, found: BlobLookup, now: int, *, kept_until: int) -> Decision:
    """End an upload of a workspace. Its bytes are unreferenced until a version lists them."""
    upload = open_upload(heads, upload_id, now)
    ended = replace(upload, state="committed", sha256=found.sha256, size=found.size, expires_at=kept_until)
    return [Append(UPLOAD, upload_id, ended), *store_unreferenced([found], heads, now)]


def abort_upload(heads: Heads, upload_id: str, now: int, *, kept_until: int) -> Decision:
    """Abort an upload. Does nothing if it has ended."""
    head = heads(UPLOAD, upload_id)
    upload = value_of(head)
    if upload is None:
        raise upload_not_found(upload_id)
    if not upload.open:
        return []
    del now
    return [Append(UPLOAD, upload_id, replace(upload, state="aborted", expires_at=kept_until))]


def expire_upload(heads: Heads, upload_id: str, now: int, *, kept_until: int) -> Decision:
    """Abort an upload whose expiry time has passed. A chunk may have extended it."""
    head = heads(UPLOAD, upload_id)
    if head is None or head.value is None or head.value.expires_at > now:
        return []
    return abort_upload(heads, upload_id, now, kept_until=kept_until)
