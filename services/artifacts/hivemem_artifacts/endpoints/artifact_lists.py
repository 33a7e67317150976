"""Lists: the files of a session, the versions of a file, the manifest. Each page is a range of one index."""

from collections.abc import Sequence

import orjson

from hivemem_artifacts.decisions.deleting import artifact_not_found
from hivemem_artifacts.endpoints.reading import artifact_model, version_of
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


class Listing:
    """The operations that page through what there is."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def bind(self, service: Service) -> None:
        service.handler(operations.LIST, self.list)
        service.handler(operations.VERSIONS, self.versions)
        service.handler(operations.MANIFEST, self.manifest)

    async def manifest(self, call: Call, body: requests.ReadManifest) -> Manifest:
        tenant = call.sender.tenant
        heads, cursor = await self._in_session(tenant, body.session_id, "", body.cursor, body.limit)
        items = [manifest_entry(tenant, head.id, head.value) for head in heads if head.value is not None]
        return Manifest.model_construct(items=items, cursor=cursor)

    async def versions(self, call: Call, body: requests.ListVersions) -> ArtifactPage:
        tenant, place = call.sender.tenant, place_of(body.session_id, body.name)
        head = await self._ledger.head(ARTIFACT, tenant, place)
        if head is None or head.value is None:
            raise artifact_not_found(place)
        records = await self._ledger.history(
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

    async def list(self, call: Call, body: requests.ListArtifacts) -> ArtifactPage:
        tenant = call.sender.tenant
        heads, cursor = await self._in_session(tenant, body.session_id, body.prefix or "", body.cursor, body.limit)
        items = [artifact_model(tenant, head.id, head.value) for head in heads if head.value is not None]
        return ArtifactPage.model_construct(items=items, cursor=cursor)

    async def _in_session(
        self, tenant: str, session_id: str, prefix: str, cursor: str | None, limit: int
    ) -> tuple["Sequence[Head[ArtifactHead]]", str | None]:
        """The next heads by name, as many as fit into an answer, and where to go on."""
        low, high = within(session_id, prefix)
        if cursor is not None:
            # The first place behind the last one of the page before.
            low = place_of(session_id, decode_cursor(cursor, (str, str))[1]) + "\0"
        page = await self._ledger.find(ARTIFACT, tenant, "place", equals={}, low=low, high=high, limit=limit)
        present = [head.value for head in page.items if head.value is not None]
        taken = page.items[: len(_fitting(present, len(high)))]
        more = len(taken) < len(page.items) or page.cursor is not None
        return taken, encode_cursor("names", session_and_name(taken[-1].id)[1]) if more and taken else None


def _fitting(versions: Sequence[ArtifactHead], place_characters: int) -> Sequence[ArtifactHead]:
    """As many from the front as surely fit into one answer; at least one."""
    size = 0
    for count, version in enumerate(versions):
        size += len(orjson.dumps(version)) + 24 * place_characters + 4_096
        if count and size > REPLY_BYTES:
            return versions[:count]
    return versions
