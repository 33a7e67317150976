"""The operations that read workspaces: their files, versions and differences, and the bytes of files."""

import asyncio
from bisect import bisect_left
from typing import Any, Final
from zlib import crc32

import orjson

from hivemem_artifacts.decisions.workspaces import workspace_not_found
from hivemem_artifacts.endpoints.workspace_listings import ListedFile, Listings
from hivemem_artifacts.entities.blobs import BLOB, blob_name
from hivemem_artifacts.entities.workspaces import WORKSPACE, WorkspaceHead, evolve_workspace, workspace_fields
from hivemem_artifacts.ports import BlobStore
from hivemem_contracts.artifacts import operations, requests
from hivemem_contracts.artifacts.chunks import CRC32_HEADER, parse_workspace_subject, workspace_subject
from hivemem_contracts.artifacts.models import WorkspaceVersion
from hivemem_contracts.artifacts.replies import (
    WorkspaceChangeKind,
    WorkspaceDiff,
    WorkspaceDifference,
    WorkspacePage,
    WorkspaceVersionPage,
)
from hivemem_contracts.artifacts.workspace_files import WorkspaceEntry
from hivemem_contracts.errors import InvalidRequest, NotFound
from hivemem_contracts.identifiers import time_from_microseconds
from hivemem_contracts.limits import ARTIFACT_CHUNK_BYTES, REPLY_BYTES, WORKSPACE_RANGES
from hivemem_contracts.sizes import check_size
from hivemem_runtime.bus.requests.raw_subjects import RawAnswer, RawRequest
from hivemem_runtime.ledger.cursor import decode_cursor, encode_cursor
from hivemem_runtime.ledger.port import Ledger, value_of
from hivemem_runtime.service import Call, Service

_ENTRY_BYTES: Final = 256
"""The size of an entry in an answer, beside its path and target. Each may need three bytes where a character of JSON is
escaped."""

_SHA256_DIGITS: Final = 64


def bind(service: Service, reads: "WorkspaceReads") -> None:
    service.handler(operations.WORKSPACE_GET, reads.get)
    service.handler(operations.WORKSPACE_VERSIONS, reads.versions)
    service.handler(operations.WORKSPACE_LIST, reads.list)
    service.handler(operations.WORKSPACE_DIFF, reads.diff)


def workspace_model(workspace_id: str, version: WorkspaceHead) -> WorkspaceVersion:
    """Return the wire format of a version, without validation: it was validated before it was stored."""
    fields = workspace_fields(workspace_id, version)
    fields["created_at"] = time_from_microseconds(version.created_at)
    return WorkspaceVersion.model_construct(**fields)


def _entry(file: ListedFile | None) -> WorkspaceEntry | None:
    return None if file is None else WorkspaceEntry.model_construct(**file._asdict())


def _answer_bytes(file: ListedFile) -> int:
    return _ENTRY_BYTES + 6 * (len(file.path) + len(file.target or ""))


class WorkspaceReads:
    """The operations that read workspaces, and the answers to requests for bytes."""

    def __init__(self, ledger: Ledger, store: BlobStore, listings: Listings) -> None:
        self._ledger = ledger
        self._store = store
        self._listings = listings
        self.read_bytes = ARTIFACT_CHUNK_BYTES
        """The most bytes of one answer, known once the worker is connected."""

    async def _find(self, tenant: str, workspace_id: str, version: int | None) -> WorkspaceHead:
        newest = value_of(await self._ledger.head(WORKSPACE, tenant, workspace_id))
        if newest is None:
            raise workspace_not_found(workspace_id)
        if version is None or version == newest.version:
            return newest
        record = await self._ledger.record(WORKSPACE, tenant, workspace_id, version)
        if record is None:
            raise workspace_not_found(workspace_id, version)
        return evolve_workspace(None, record.value, record.stamp)

    async def get(self, call: Call, body: requests.GetWorkspace) -> WorkspacePage:
        tenant, agent = call.sender.tenant, call.sender.agent
        version = body.version
        after, prefix = "", body.prefix or ""
        if body.cursor is not None:
            version, after = decode_cursor(body.cursor, (int, str))
        found = await self._find(tenant, body.workspace_id, version)
        items, more = await self._files(tenant, found, prefix, after, body.limit)
        return WorkspacePage.model_construct(
            workspace=workspace_model(body.workspace_id, found),
            items=[_entry(file) for file in items],
            cursor=encode_cursor(found.version, items[-1].path) if more else None,
            read_subject=workspace_subject(tenant, agent, body.workspace_id),
            read_bytes=self.read_bytes,
        )

    async def _files(
        self, tenant: str, version: WorkspaceHead, prefix: str, after: str, limit: int
    ) -> tuple[list[ListedFile], bool]:
        """Return the next files with a prefix, as many as fit into an answer, and whether there are more."""
        items: list[ListedFile] = []
        size = 0
        first = bisect_left(version.listings, max(prefix, after), key=lambda listing: listing[1])
        for listing, _ in version.listings[first:]:
            for file in await self._listings.read(tenant, listing):
                if file.path <= after or file.path < prefix:
                    continue
                if not file.path.startswith(prefix):
                    return items, False
                size += _answer_bytes(file)
                if len(items) == limit or (items and size > REPLY_BYTES):
                    return items, True
                items.append(file)
        return items, False

    async def versions(self, call: Call, body: requests.ListWorkspaceVersions) -> WorkspaceVersionPage:
        tenant, workspace_id = call.sender.tenant, body.workspace_id
        newest = await self._find(tenant, workspace_id, None)
        records = await self._ledger.history(
            WORKSPACE,
            tenant,
            workspace_id,
            after=newest.first_version - 1,
            before=decode_cursor(body.cursor, (str, int))[1] if body.cursor else None,
            limit=body.limit + 1,
            reverse=True,
        )
        found = [evolve_workspace(None, record.value, record.stamp) for record in records]
        taken = _fitting(found[: body.limit])
        more = len(found) > len(taken)
        return WorkspaceVersionPage.model_construct(
            items=[workspace_model(workspace_id, version) for version in taken],
            cursor=encode_cursor("workspace versions", taken[-1].version) if more else None,
        )

    async def list(self, call: Call, body: requests.ListWorkspaces) -> WorkspaceVersionPage:
        low = None
        if body.cursor is not None:
            low = decode_cursor(body.cursor, (str, str))[1] + "\0"
        page = await self._ledger.find(WORKSPACE, call.sender.tenant, "id", equals={}, low=low, limit=body.limit)
        found = [(head.id, head.value) for head in page.items if head.value is not None]
        taken = found[: len(_fitting([version for _, version in found]))]
        more = len(taken) < len(found) or page.cursor is not None
        return WorkspaceVersionPage.model_construct(
            items=[workspace_model(workspace_id, version) for workspace_id, version in taken],
            cursor=encode_cursor("workspaces", taken[-1][0]) if more and taken else None,
        )

    async def diff(self, call: Call, body: requests.DiffWorkspace) -> WorkspaceDiff:
        tenant = call.sender.tenant
        start = await self._find(tenant, body.workspace_id, body.start)
        end = await self._find(tenant, body.workspace_id, body.end)
        before, new = await self._listings.differing(tenant, start, [listing for listing, _ in end.listings])
        after: dict[str, ListedFile] = {}
        for listing in new:
            after.update((file.path, file) for file in await self._listings.read(tenant, listing))
        last = decode_cursor(body.cursor, (str, str))[1] if body.cursor else ""
        items: list[WorkspaceDifference] = []
        size = 0
        for path in sorted(before.keys() | after.keys()):
            old, now = before.get(path), after.get(path)
            if path <= last or old == now:
                continue
            size += sum(_answer_bytes(file) for file in (old, now) if file is not None)
            if len(items) == body.limit or (items and size > REPLY_BYTES):
                return WorkspaceDiff.model_construct(items=items, cursor=encode_cursor("diff", items[-1].path))
            items.append(_difference(path, old, now))
        return WorkspaceDiff.model_construct(items=items, cursor=None)

    async def bytes(self, request: RawRequest) -> RawAnswer:
        """Answer a request for ranges of blobs. Blobs are looked up each time, and found only if something refers to
        them."""
        sender, workspace_id = parse_workspace_subject(request.subject)
        await self._find(sender.tenant, workspace_id, None)
        ranges = _ranges(request.data, self.read_bytes)
        heads = await self._ledger.heads(BLOB, sender.tenant, list({sha256 for sha256, _, _ in ranges}))
        names: dict[str, str] = {}
        for number, (sha256, offset, length) in enumerate(ranges):
            blob = value_of(heads.get(sha256))
            if blob is None or not blob.usable or not blob.refs:
                raise NotFound(f"{number}.0: these bytes are not stored, got {sha256!r}", sha256=sha256)
            if offset + length > blob.size:
                raise InvalidRequest(
                    f"{number}.2: the bytes end at {blob.size}, got {offset} and {length}", field=f"{number}.2"
                )
            names[sha256] = blob_name(sha256, blob.life)
        pieces = await asyncio.gather(
            *(
                self._store.read(sender.tenant, names[sha256], offset, length)
                for sha256, offset, length in ranges
                if length
            )
        )
        data = b"".join(pieces)
        return RawAnswer({CRC32_HEADER: f"{crc32(data):08x}"}, data)


def _difference(path: str, old: ListedFile | None, now: ListedFile | None) -> WorkspaceDifference:
    change: WorkspaceChangeKind = "added" if old is None else "removed" if now is None else "changed"
    return WorkspaceDifference.model_construct(path=path, change=change, before=_entry(old), after=_entry(now))


def _fitting(versions: list[WorkspaceHead]) -> list[WorkspaceHead]:
    """Return the first versions that certainly fit into one answer; at least one."""
    size = 0
    for count, version in enumerate(versions):
        size += 4_096 + 6 * len(version.message or "")
        if count and size > REPLY_BYTES:
            return versions[:count]
    return versions


def _ranges(data: bytes, most: int) -> list[tuple[str, int, int]]:
    try:
        found: Any = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(f"body: not JSON: {error}", field="body") from error
    if not isinstance(found, list):
        raise InvalidRequest("body: an array of [sha256, offset, length] is wanted", field="body")
    ranges: list[Any] = found  # pyright: ignore[reportUnknownVariableType]  # whatever JSON holds
    check_size("body", len(ranges), WORKSPACE_RANGES)
    total = 0
    for number, each in enumerate(ranges):
        match each:
            case [str(sha256), int(offset), int(length)] if (
                len(sha256) == _SHA256_DIGITS and 0 <= offset < 2**53 and 0 <= length <= most
            ):
                total += length
            case _:
                raise InvalidRequest(
                    f"{number}: [sha256, offset, length] is wanted, at most {most} bytes, got {str(each)[:100]}",
                    field=str(number),
                )
    check_size("body", total, most)
    return [(sha256, int(offset), int(length)) for sha256, offset, length in ranges]
