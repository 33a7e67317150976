"""The operation `save`, for small files in one request."""

import binascii
from base64 import b64decode
from functools import partial
from hashlib import sha256

from hivemem_artifacts.decisions.saves import BlobLookup, save_version
from hivemem_artifacts.endpoints.blob_references import BlobReferences
from hivemem_artifacts.endpoints.content_types import SNIFFED_BYTES, content_type_of
from hivemem_artifacts.endpoints.reads import artifact_model, version_of
from hivemem_artifacts.entities.artifacts import ARTIFACT, require_announceable
from hivemem_artifacts.entities.places import place_of
from hivemem_contracts.artifacts import operations, requests
from hivemem_contracts.artifacts.models import Artifact
from hivemem_contracts.errors import InvalidRequest
from hivemem_contracts.large_values import FOLDER, value_name
from hivemem_contracts.limits import ARTIFACT_INLINE_BYTES
from hivemem_contracts.sizes import check_size
from hivemem_runtime.ledger.port import Ledger, Outcome
from hivemem_runtime.service import Call, Service


def bind(service: Service, references: BlobReferences, largest: int) -> None:
    service.handler(operations.SAVE, partial(save, service.ledger, references, largest))


async def save(
    ledger: Ledger, references: BlobReferences, largest: int, call: Call, body: requests.SaveArtifact
) -> Artifact:
    data = decoded(body.data_base64, "data_base64")
    check_size("data_base64", len(data), min(ARTIFACT_INLINE_BYTES, largest))
    digest = sha256(data).hexdigest()
    require_hash(body.sha256, digest)
    require_value_name(body.name, digest)
    tenant, place = call.sender.tenant, place_of(body.session_id, body.name)
    require_announceable(tenant, body.session_id, body.name)
    content_type = content_type_of(data[:SNIFFED_BYTES], body.name, body.content_type)

    async def put(blob: str) -> None:
        await references.store.put(tenant, blob, data)

    async def commit(found: BlobLookup) -> Outcome:
        return await ledger.commit(
            call.write(
                ARTIFACT,
                place,
                lambda heads, now: save_version(heads, place, found, content_type, body.metadata, now),
            )
        )

    outcome = await references.keep(tenant, digest, len(data), put, commit)
    assert outcome.stamp is not None, "a save appends"
    return artifact_model(tenant, place, version_of(outcome.record, outcome.stamp))


def decoded(text: str, field: str) -> bytes:
    """Return the bytes of a base64 text. Raises `InvalidRequest`."""
    try:
        return b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidRequest(f"{field}: {error}", field=field) from error


def require_hash(said: str | None, actual: str, field: str = "sha256") -> None:
    if said is not None and said != actual:
        raise InvalidRequest(f"{field}: the bytes have {actual}, not {said}", field=field, actual=actual)


def require_value_name(name: str, sha256: str | None) -> None:
    """Raise `InvalidRequest` unless the file of a large value is named after its bytes, which no version can change."""
    if name.startswith(FOLDER) and (sha256 is None or name != value_name(sha256)):
        wanted = "with a sha256" if sha256 is None else f"as {value_name(sha256)!r}"
        raise InvalidRequest(f"name: files below {FOLDER!r} are large values, this one is saved {wanted}", field="name")
