"""The operations `list`, `versions` and `manifest`. Each page is a range of one index."""

from collections.abc import Sequence
from functools import partial

import orjson

from hivemem_artifacts.decisions.deletions import artifact_not_found
from hivemem_artifacts.endpoints.reads import artifact_model, version_of
from hivemem_artifacts.entities.artifacts import ARTIFACT, ArtifactHead
from hivemem_artifacts.entities.places import place_of, session_and_name, within
from hivemem_contracts.artifacts import operations, requests
from hivemem_contracts.artifacts.models import ManifestEntry
from hivemem_contracts.artifacts.replies import ArtifactPage, Manifest
from hivemem_contracts.artifacts.urls import ArtifactUrl
from hivemem_contracts.identifiers import time_from_microseconds
from hivemem_contracts.limits import REPLY_BYTES
from hivemem_runtime.ledger.cursor import decode_cursor, encode_cursor
from hivemem_runtime.ledger.port import Head, Ledger
from hivemem_runtime.service import Call, Service


def bind(service: Service) -> None:
    ledger = service.ledger
    service.handler(operations.LIST, partial(list_artifacts, ledger))
    service.handler(operations.VERSIONS, partial(list_versions, ledger))
    service.handler(operations.MANIFEST, partial(read_manifest, ledger))


def manifest_entry(tenant: str, place: str, version: ArtifactHead) -> ManifestEntry:
    session_id, name = session_and_name(place)
    return ManifestEntry.model_construct(
        name=name,
        url=str(ArtifactUrl(tenant, session_id, name, version.version)),
        timestamp=time_from_microseconds(version.created_at),
        size=version.size,
        sha256=version.sha256,
        version=version.version,
        content_type=version.content_type,
    )


async def read_manifest(ledger: Ledger, call: Call, body: requests.ReadManifest) -> Manifest:
    tenant = call.sender.tenant
    heads, cursor = await _in_session(ledger, tenant, body.session_id, "", body.cursor, body.limit)
    items = [manifest_entry(tenant, head.id, head.value) for head in heads if head.value is not None]
    return Manifest.model_construct(items=items, cursor=cursor)


async def list_versions(ledger: Ledger, call: Call, body: requests.ListVersions) -> ArtifactPage:
    tenant, place = call.sender.tenant, place_of(body.session_id, body.name)
    head = await ledger.head(ARTIFACT, tenant, place)
    if head is None or head.value is None:
        raise artifact_not_found(place)
    records = await ledger.history(
        ARTIFACT,
        tenant,
        place,
        after=head.value.first_version - 1,
        before=decode_cursor(body.cursor, (str, int))[1] if body.cursor else None,
        limit=body.limit + 1,
        reverse=True,
    )
    taken = _fitting([version_of(record.value, record.stamp) for record in records[: body.limit]], len(place))
    more = len(records) > len(taken)
    return ArtifactPage.model_construct(
        items=[artifact_model(tenant, place, version) for version in taken],
        cursor=encode_cursor("versions", taken[-1].version) if more and taken else None,
    )


async def list_artifacts(ledger: Ledger, call: Call, body: requests.ListArtifacts) -> ArtifactPage:
    tenant = call.sender.tenant
    heads, cursor = await _in_session(ledger, tenant, body.session_id, body.prefix or "", body.cursor, body.limit)
    items = [artifact_model(tenant, head.id, head.value) for head in heads if head.value is not None]
    return ArtifactPage.model_construct(items=items, cursor=cursor)


async def _in_session(
    ledger: Ledger, tenant: str, session_id: str, prefix: str, cursor: str | None, limit: int
) -> tuple["Sequence[Head[ArtifactHead]]", str | None]:
    """Return the next artifacts by name, as many as fit into an answer, and the next cursor."""
    low, high = within(session_id, prefix)
    if cursor is not None:
        # This is the first place after the last one of the previous page.
        low = place_of(session_id, decode_cursor(cursor, (str, str))[1]) + "\0"
    page = await ledger.find(ARTIFACT, tenant, "place", equals={}, low=low, high=high, limit=limit)
    present = [head.value for head in page.items if head.value is not None]
    taken = page.items[: len(_fitting(present, len(high)))]
    more = len(taken) < len(page.items) or page.cursor is not None
    return taken, encode_cursor("names", session_and_name(taken[-1].id)[1]) if more and taken else None


def _fitting(versions: Sequence[ArtifactHead], place_characters: int) -> Sequence[ArtifactHead]:
    """Return the first versions that certainly fit into one answer; at least one."""
    size = 0
    for count, version in enumerate(versions):
        size += len(orjson.dumps(version)) + 24 * place_characters + 4_096
        if count and size > REPLY_BYTES:
            return versions[:count]
    return versions
