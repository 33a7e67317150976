"""The operations `workspace_check` and `workspace_save`: which bytes are missing, and small ones in one request."""

import asyncio
from functools import partial
from hashlib import sha256
from typing import Final

from hivemem_artifacts.endpoints.blob_references import BlobReferences
from hivemem_artifacts.endpoints.saves import decoded, require_hash
from hivemem_artifacts.entities.blobs import BLOB
from hivemem_artifacts.entities.workspaces import require_announceable_workspace
from hivemem_contracts.artifacts import operations, requests
from hivemem_contracts.artifacts.replies import StoredWorkspaceBlob, WorkspaceBlobsSaved, WorkspaceChecked
from hivemem_contracts.artifacts.workspace_files import check_link
from hivemem_contracts.errors import InvalidRequest
from hivemem_contracts.limits import ARTIFACT_INLINE_BYTES
from hivemem_contracts.sizes import check_size
from hivemem_runtime.ledger.port import Ledger, value_of
from hivemem_runtime.service import Call, Service

LOOKED_UP_AT_ONCE: Final = 500


def bind(service: Service, references: BlobReferences, largest: int) -> None:
    service.handler(operations.WORKSPACE_CHECK, partial(check_workspace, service.ledger))
    service.handler(operations.WORKSPACE_SAVE, partial(save_blobs, references, largest))


async def check_workspace(ledger: Ledger, call: Call, body: requests.CheckWorkspace) -> WorkspaceChecked:
    """Answer for the blobs of the sender's tenant alone: blobs of other tenants are missing here."""
    for number, file in enumerate(body.files):
        if file.target is not None:
            check_link(file, f"files.{number}")
    wanted = {file.sha256: file.size for file in body.files if file.target is None}
    hashes, missing = list(wanted), list[str]()
    for start in range(0, len(hashes), LOOKED_UP_AT_ONCE):
        part = hashes[start : start + LOOKED_UP_AT_ONCE]
        heads = await ledger.heads(BLOB, call.sender.tenant, part)
        for digest in part:
            blob = value_of(heads.get(digest))
            if blob is None or not blob.usable:
                missing.append(digest)
            elif blob.size != wanted[digest]:
                number = next(n for n, file in enumerate(body.files) if file.sha256 == digest)
                raise InvalidRequest(
                    f"files.{number}.size: these bytes are {blob.size}, got {wanted[digest]}",
                    field=f"files.{number}.size",
                )
        await asyncio.sleep(0)
    return WorkspaceChecked.model_construct(missing=missing)


async def save_blobs(
    references: BlobReferences, largest: int, call: Call, body: requests.SaveWorkspaceBlobs
) -> WorkspaceBlobsSaved:
    require_announceable_workspace(call.sender.tenant, body.workspace_id)
    blobs: dict[str, bytes] = {}
    items: list[StoredWorkspaceBlob] = []
    total = 0
    for number, blob in enumerate(body.blobs):
        field = f"blobs.{number}"
        data = decoded(blob.data_base64, f"{field}.data_base64")
        total += len(data)
        check_size(field, len(data), largest)
        check_size("blobs", total, ARTIFACT_INLINE_BYTES)
        digest = sha256(data).hexdigest()
        require_hash(blob.sha256, digest, f"{field}.sha256")
        blobs[digest] = data
        items.append(StoredWorkspaceBlob.model_construct(sha256=digest, size=len(data)))
    await references.keep_unreferenced(call, blobs)
    return WorkspaceBlobsSaved.model_construct(items=items)
