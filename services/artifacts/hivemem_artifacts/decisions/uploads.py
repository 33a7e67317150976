"""The life of an upload: begun, handed from worker to worker, committed or given up."""

from dataclasses import replace

from hivemem_artifacts.decisions.saving import Bytes, save_version
from hivemem_artifacts.entities.artifacts import ARTIFACT
from hivemem_artifacts.entities.places import place_of
from hivemem_artifacts.entities.uploads import UPLOAD, Upload
from hivemem_contracts.errors import HiveError, NotFound
from hivemem_runtime.ledger.port import Append, Decision, Heads, value_of


class Committed(HiveError):
    """It is committed already: the answer is its artifact. Never answered as an error."""


def upload_not_found(upload_id: str) -> NotFound:
    return NotFound(f"upload {upload_id!r} does not exist, or was given up", upload_id=upload_id)


def open_upload(heads: Heads, upload_id: str, now: int) -> Upload:
    """The upload, if it takes bytes still; past its time it is given up, though nobody may have noted that yet."""
    head = heads(UPLOAD, upload_id)
    upload = value_of(head)
    if upload is None or upload.state == "aborted" or (upload.open and upload.expires_at <= now):
        raise upload_not_found(upload_id)
    if not upload.open:
        raise Committed(f"upload {upload_id!r} is committed")
    return upload


def begin_upload(heads: Heads, upload_id: str, upload: Upload) -> Decision:
    del heads  # the id is fresh: it follows from that of the request
    return [Append(UPLOAD, upload_id, upload)]


def hold_upload(heads: Heads, upload_id: str, member: str, expires_at: int, now: int) -> Decision:
    """Another worker takes it over, or its holder puts off its end."""
    upload = open_upload(heads, upload_id, now)
    return [Append(UPLOAD, upload_id, replace(upload, member=member, expires_at=expires_at))]


def commit_upload(
    heads: Heads, upload_id: str, found: Bytes, content_type: str, now: int, *, kept_until: int
) -> Decision:
    """The next version of its name, and the upload's end, in one step."""
    upload = open_upload(heads, upload_id, now)
    place = place_of(upload.session_id, upload.name)
    saved = save_version(heads, place, found, content_type, upload.metadata, now)
    before = heads(ARTIFACT, place)
    version = 1 if before is None else before.version + 1
    ended = replace(upload, state="committed", version=version, expires_at=kept_until)
    return [*saved, Append(UPLOAD, upload_id, ended)]


def abort_upload(heads: Heads, upload_id: str, now: int, *, kept_until: int) -> Decision:
    """Nothing for one that has ended already."""
    head = heads(UPLOAD, upload_id)
    upload = value_of(head)
    if upload is None:
        raise upload_not_found(upload_id)
    if not upload.open:
        return []
    del now
    return [Append(UPLOAD, upload_id, replace(upload, state="aborted", expires_at=kept_until))]


def expire_upload(heads: Heads, upload_id: str, now: int, *, kept_until: int) -> Decision:
    """As `abort_upload`, if its time is really over: a chunk may have put it off since."""
    head = heads(UPLOAD, upload_id)
    if head is None or head.value is None or head.value.expires_at > now:
        return []
    return abort_upload(heads, upload_id, now, kept_until=kept_until)
