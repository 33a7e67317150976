"""Listings: the list of a version's files in parts, each a blob that versions share.

A part ends after a path whose checksum says so. So parts depend only on the files within them, and a changed file
changes one part.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from operator import attrgetter
from typing import Any, Final, NamedTuple
from zlib import crc32

import orjson

from hivemem_artifacts.decisions.saves import BlobLookup
from hivemem_artifacts.decisions.workspaces import BlobsMissing, make_listing, release_listing
from hivemem_artifacts.endpoints.blob_references import BlobReferences
from hivemem_artifacts.entities.blobs import BLOB, blob_name
from hivemem_artifacts.entities.listings import LISTING
from hivemem_artifacts.entities.workspaces import WorkspaceRecord
from hivemem_artifacts.ports import PIECE_BYTES
from hivemem_contracts.artifacts.workspace_files import WorkspaceFile
from hivemem_contracts.errors import InvalidRequest, NotFound
from hivemem_runtime.ledger.port import SYSTEM, Ledger, Outcome, system_write, value_of

FILES_PER_LISTING: Final = 256
"""How many files a listing has on average."""

LARGEST_LISTING: Final = 1_024
"""The most files of a listing. Each is a write in the commit that makes it present."""

SHOWN_MISSING: Final = 100


class ListedFile(NamedTuple):
    """A file as a listing holds it, in the order of its fields."""

    path: str
    sha256: str
    size: int
    mode: int
    target: str | None


@dataclass(frozen=True, slots=True)
class ListingDraft:
    """A listing that a version needs, with its blob."""

    sha256: str
    data: bytes
    files: Sequence[ListedFile]


def sizes_of(files: Iterable[ListedFile]) -> dict[str, int]:
    """Return the size of each blob that the files need, by its hash."""
    return {file.sha256: file.size for file in files if file.target is None}


def drafts_of(files: Iterable[WorkspaceFile]) -> list[ListingDraft]:
    """Return the listings of files in any order."""
    ordered = [
        ListedFile(file.path, file.sha256, file.size, file.mode, file.target)
        for file in sorted(files, key=attrgetter("path"))
    ]
    return [_draft(part) for part in _parts(ordered)]


def _parts(files: Sequence[ListedFile]) -> Iterator[Sequence[ListedFile]]:
    start = 0
    for end, file in enumerate(files, 1):
        if crc32(file.path.encode()) % FILES_PER_LISTING == 0 or end - start == LARGEST_LISTING:
            yield files[start:end]
            start = end
    if start < len(files):
        yield files[start:]


def _draft(files: Sequence[ListedFile]) -> ListingDraft:
    data = orjson.dumps([tuple(file) for file in files])
    return ListingDraft(sha256(data).hexdigest(), data, files)


class Listings:
    """Makes, reads and releases listings."""

    def __init__(self, ledger: Ledger, references: BlobReferences) -> None:
        self._ledger = ledger
        self._references = references

    async def make(self, tenant: str, agent: str, drafts: Sequence[ListingDraft], field: str) -> None:
        """Make listings present, unless versions refer to them. Raises `InvalidRequest` if bytes are missing."""
        heads = await self._ledger.heads(LISTING, tenant, [draft.sha256 for draft in drafts])
        for draft in drafts:
            listing = value_of(heads.get(draft.sha256))
            if listing is None or not listing.refs:
                await self._make_one(tenant, agent, draft, field)

    async def _make_one(self, tenant: str, agent: str, draft: ListingDraft, field: str) -> None:
        sizes = sizes_of(draft.files)
        reads = [(BLOB, sha256) for sha256 in (*sizes, draft.sha256)]

        async def put(blob: str) -> None:
            await self._references.store.put(tenant, blob, draft.data)

        async def commit(found: BlobLookup) -> Outcome:
            return await self._ledger.commit(
                system_write(
                    tenant,
                    LISTING,
                    draft.sha256,
                    lambda heads, now: make_listing(heads, found, sizes, now),
                    reads,
                    actor=agent,
                )
            )

        try:
            await self._references.keep(tenant, draft.sha256, len(draft.data), put, commit)
        except BlobsMissing as error:
            raise _missing(draft, error.missing, field) from error

    async def read(self, tenant: str, sha256: str) -> list[ListedFile]:
        """Return the files of a listing. Raises `NotFound` if it was deleted."""
        blob = value_of(await self._ledger.head(BLOB, tenant, sha256))
        if blob is None or not blob.usable:
            raise NotFound(f"the listing {sha256} does not exist any more", sha256=sha256)
        data = await self._references.store.read(tenant, blob_name(sha256, blob.life), 0, PIECE_BYTES)
        found: list[list[Any]] = orjson.loads(data)
        return [ListedFile(*fields) for fields in found]

    async def release(
        self, tenant: str, sha256: str, *, actor: str = SYSTEM, cause: str | None = None, before: int | None = None
    ) -> bool:
        """Release the references of an unreferenced listing, and return whether it had any."""
        listing = value_of(await self._ledger.head(LISTING, tenant, sha256))
        if listing is None or not listing.present or listing.refs:
            return False
        sizes = sizes_of(await self.read(tenant, sha256))
        reads = [(BLOB, blob) for blob in (*sizes, sha256)]
        outcome = await self._ledger.commit(
            system_write(
                tenant,
                LISTING,
                sha256,
                lambda heads, now: release_listing(heads, sha256, sizes, now, before),
                reads,
                actor=actor,
                cause=cause,
            )
        )
        return outcome.record is not None

    async def differing(
        self, tenant: str, before: WorkspaceRecord | None, after: Sequence[str]
    ) -> tuple[dict[str, ListedFile], list[str]]:
        """Return the files of the listings that only the version before has, and the listings that only the version
        after has."""
        old = [] if before is None else [listing for listing, _ in before.listings]
        gone, new = set(old) - set(after), set(after) - set(old)
        files: dict[str, ListedFile] = {}
        for listing in old:
            if listing in gone:
                files.update((file.path, file) for file in await self.read(tenant, listing))
        return files, [listing for listing in after if listing in new]


def _missing(draft: ListingDraft, missing: Sequence[str], field: str) -> InvalidRequest:
    wanted = set(missing)
    file = next(file for file in draft.files if file.sha256 in wanted)
    return InvalidRequest(
        f"{field}: the {file.size} bytes of {file.path!r} are not uploaded, got {file.sha256!r}",
        field=field,
        path=file.path,
        missing=sorted(wanted)[:SHOWN_MISSING],
    )
