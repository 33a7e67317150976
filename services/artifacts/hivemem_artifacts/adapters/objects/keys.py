"""The keys in the bucket: `blobs/<tenant>/`, `staging/<upload id>/` and `manifests/<tenant>/`."""

import secrets
from typing import Final, NamedTuple

from hivemem_artifacts.adapters.names import (
    checked_blob,
    checked_upload_id,
    folder_name,
    is_blob_name,
    is_upload_id,
    tenant_name,
)
from hivemem_contracts.errors import InvalidRequest
from hivemem_contracts.subjects import decode_token

BLOBS: Final = "blobs/"
STAGING: Final = "staging/"


class BlobPlace(NamedTuple):
    tenant: str
    blob: str


def blob_key(tenant: str, blob: str) -> str:
    return f"{BLOBS}{tenant_name(tenant)}/{checked_blob(blob)}"


def blob_place(key: str) -> BlobPlace | None:
    """Return the tenant and the name of a blob, or None if the key is not a blob's."""
    token, _, blob = key.removeprefix(BLOBS).partition("/")
    if not is_blob_name(blob):
        return None
    try:
        return BlobPlace(decode_token(token), blob)
    except InvalidRequest:
        return None


def staging_prefix(upload_id: str) -> str:
    return f"{STAGING}{checked_upload_id(upload_id)}/"


def staged_upload_id(key: str) -> str | None:
    upload_id = key.removeprefix(STAGING).partition("/")[0]
    return upload_id if is_upload_id(upload_id) else None


def claims_prefix(upload_id: str) -> str:
    return f"{staging_prefix(upload_id)}claims/"


def holder_prefix(upload_id: str, holder: str) -> str:
    return f"{staging_prefix(upload_id)}{holder}/"


def segment_key(upload_id: str, holder: str, offset: int, size: int) -> str:
    """Return the key of a segment. No two holders write different bytes under the same key."""
    return f"{holder_prefix(upload_id, holder)}{offset:016x}-{size:08x}"


def segment_offset(key: str) -> int:
    return int(key.rpartition("/")[2].partition("-")[0], 16)


def presigned_key(upload_id: str) -> str:
    return f"{staging_prefix(upload_id)}presigned"


def manifest_key(tenant: str, session_id: str) -> str:
    return f"manifests/{tenant_name(tenant)}/{folder_name(session_id, '.json')}"


def fresh_id(kind: str) -> str:
    """Return an id for staging without an upload. If a kill leaves it behind, it is found among the stagings."""
    return f"{kind}-{secrets.token_hex(8)}"
