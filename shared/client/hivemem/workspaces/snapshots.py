"""Takes a snapshot: hash the files, ask which bytes are missing, send them, and commit the list."""

import asyncio
import os
from base64 import b64encode
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson

from hivemem.threads import to_the_end
from hivemem.upload_sources import BytesInMemory, SeekableFile, Source
from hivemem.uploading import COMMIT_SECONDS, File, Progress, Uploading
from hivemem.workspaces.sandbox import open_below, opened_root
from hivemem.workspaces.threads import first_error, stoppable
from hivemem.workspaces.trees import LocalFile, Skipped, read_tree
from hivemem_contracts.artifacts.models import WorkspaceVersion
from hivemem_contracts.artifacts.operations import WORKSPACE_CHECK, WORKSPACE_COMMIT, WORKSPACE_SAVE
from hivemem_contracts.errors import InvalidRequest, Unavailable
from hivemem_contracts.limits import (
    ARTIFACT_INLINE_BYTES,
    BATCH_ITEMS,
    MESSAGE_BYTES,
    WORKSPACE_LIST_BYTES,
    WORKSPACE_PART_FILES,
)
from hivemem_contracts.sizes import check_size

if TYPE_CHECKING:
    from hivemem.hive import Hive

REQUESTS_AT_ONCE: Final = 4
SMALL_BYTES: Final = 131_072
"""The largest file that is sent in one request with others."""

ROUNDS: Final = 5
"""How often missing bytes are sent before a snapshot gives up: files may change, and unused bytes are collected."""

FILES_A_SECOND: Final = 1_000
"""How many new files a slow worker commits. A worker that is asked twice does the work twice, but commits once."""

FIELDS_BYTES: Final = 16_384
"""The space in a message for headers, and for fields beside files."""

BLOB_BYTES: Final = 192
"""The space in a message for the fields of one small file beside its bytes."""


@dataclass(frozen=True, slots=True)
class CommitFields:
    """The fields of a commit beside its files."""

    workspace_id: str
    agent_id: str | None
    cycle: int | None
    message: str | None
    expect_version: int | None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A committed snapshot."""

    workspace_id: str
    version: int
    files: int
    bytes: int
    added: int
    changed: int
    removed: int
    created_at: datetime
    uploaded_bytes: int
    skipped: Sequence[Skipped]
    """What no version can hold: devices, links that lead out of the folder, names that some systems do not have."""


async def take_snapshot(
    hive: "Hive", root: Path, fields: CommitFields, patterns: Sequence[str], progress: Progress | None
) -> Snapshot:
    tree = await stoppable(partial(read_tree, root, patterns))
    await hive.connection.open()  # which tells the limit of the server
    with opened_root(root) as descriptor:
        uploads = MissingUploads(hive.with_options(message_id=None), descriptor, fields.workspace_id, progress)
        for _ in range(ROUNDS):
            await uploads.send(await _missing(hive, fields.workspace_id, tree.files))
            try:
                done = await _commit(hive, fields, tree.files, uploads)
            except InvalidRequest as error:
                if "missing" not in error.context:
                    raise
                continue
            return Snapshot(
                done.workspace_id,
                done.version,
                done.files,
                done.bytes,
                done.added,
                done.changed,
                done.removed,
                done.created_at,
                uploads.sent_bytes,
                tree.skipped,
            )
    raise Unavailable("files changed while they were sent, again and again: repeat the snapshot", retry_after_ms=1_000)


def _wire(file: LocalFile) -> dict[str, Any]:
    fields: dict[str, Any] = {"path": file.path, "sha256": file.sha256, "size": file.size, "mode": file.mode}
    return fields if file.target is None else {**fields, "target": file.target}


async def _missing(hive: "Hive", workspace_id: str, files: Sequence[LocalFile]) -> list[LocalFile]:
    """Return the files whose bytes are missing, one for each hash."""
    limit = asyncio.Semaphore(REQUESTS_AT_ONCE)
    by_hash = {file.sha256: file for file in files if file.target is None}
    missing: set[str] = set()

    async def check(part: list[dict[str, Any]]) -> None:
        async with limit:
            reply = await hive.send(WORKSPACE_CHECK, {"workspace_id": workspace_id, "files": part})
            missing.update(reply.missing)

    async with first_error(), asyncio.TaskGroup() as checks:
        for part in _parts_of_lists([_wire(file) for file in by_hash.values()]):
            checks.create_task(check(part))
    return [file for digest, file in by_hash.items() if digest in missing]


def _parts_of_lists(files: Sequence[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Yield the files in parts that fit into a message."""
    part: list[dict[str, Any]] = []
    size = FIELDS_BYTES
    for file in files:
        added = len(orjson.dumps(file)) + 1
        if part and (size + added > MESSAGE_BYTES or len(part) == WORKSPACE_PART_FILES):
            yield part
            part, size = [], FIELDS_BYTES
        part.append(file)
        size += added
    if part:
        yield part


async def _commit(
    hive: "Hive", fields: CommitFields, files: Sequence[LocalFile], uploads: "MissingUploads"
) -> WorkspaceVersion:
    listed = [_wire(file) for file in files]
    given: dict[str, Any] = {name: value for name, value in asdict(fields).items() if value is not None}
    data = orjson.dumps(listed)
    if len(data) + FIELDS_BYTES <= MESSAGE_BYTES and len(listed) <= WORKSPACE_PART_FILES:
        given["files"] = listed
    else:
        given["list_sha256"] = await uploads.send_bytes(data)
    options = hive.options
    patient = hive.with_options(
        timeout_seconds=max(options.timeout_seconds, COMMIT_SECONDS),
        attempt_seconds=max(options.attempt_seconds, len(files) / FILES_A_SECOND),
    )
    return await patient.send(WORKSPACE_COMMIT, given)


class MissingUploads:
    """Sends the bytes of missing files: small ones together, large ones in chunks, several requests at once.

    A file that changed since it was hashed is sent as it is now, and its entry changes with it.
    """

    def __init__(self, hive: "Hive", root: int, workspace_id: str, progress: Progress | None) -> None:
        self._hive = hive
        self._root = root
        self._workspace_id = workspace_id
        self._progress = progress
        self._limit = asyncio.Semaphore(REQUESTS_AT_ONCE)
        self._total = 0
        self.sent_bytes = 0
        passes = (hive.connection.client.max_payload - FIELDS_BYTES) * 3 // 4
        self._pack_bytes = min(ARTIFACT_INLINE_BYTES, passes)

    async def send(self, missing: Sequence[LocalFile]) -> None:
        """Send the bytes of files."""
        self._total += sum(file.size for file in missing)
        small_bytes = min(SMALL_BYTES, self._pack_bytes // 2)
        small = sorted((file for file in missing if file.size <= small_bytes), key=lambda file: file.path)
        async with first_error(), asyncio.TaskGroup() as sending:
            for file in missing:
                if file.size > small_bytes:
                    await self._limit.acquire()
                    sending.create_task(self._released(self._send_large(file)))
            for pack in self._packs(small):
                await self._limit.acquire()
                sending.create_task(self._released(self._send_pack(pack)))

    async def _released(self, sending: Coroutine[Any, Any, None]) -> None:
        try:
            await sending
        finally:
            self._limit.release()

    def _packs(self, files: Sequence[LocalFile]) -> Iterator[list[LocalFile]]:
        pack: list[LocalFile] = []
        size = 0
        for file in files:
            if pack and (size + file.size + BLOB_BYTES > self._pack_bytes or len(pack) == BATCH_ITEMS):
                yield pack
                pack, size = [], 0
            pack.append(file)
            size += file.size + BLOB_BYTES
        if pack:
            yield pack

    async def _send_pack(self, files: Sequence[LocalFile]) -> None:
        blobs = await to_the_end(self._read_pack, files)
        if blobs:
            encoded = [{"data_base64": b64encode(data).decode()} for data in blobs]
            await self._hive.send(WORKSPACE_SAVE, {"workspace_id": self._workspace_id, "blobs": encoded})
            self._advance(sum(map(len, blobs)))

    def _read_pack(self, files: Sequence[LocalFile]) -> list[bytes]:
        """Return the bytes of files as they are now. A file that grew too large waits for the next round."""
        blobs: list[bytes] = []
        room = self._pack_bytes - BLOB_BYTES * len(files)
        for file in files:
            with os.fdopen(self._open(file), "rb") as opened:
                data = opened.read(room + 1)
            if len(data) > room:
                file.size = SMALL_BYTES + 1  # its hash is not known before it is sent
                file.sha256 = sha256(data).hexdigest()
                continue
            file.sha256, file.size = sha256(data).hexdigest(), len(data)
            blobs.append(data)
            room -= len(data)
        return blobs

    def _open(self, file: LocalFile) -> int:
        try:
            return open_below(self._root, file.path)
        except OSError as error:
            reason = f"it changed during the snapshot: {os.strerror(error.errno or 0)}"
            raise InvalidRequest(f"path: {reason}, got {file.path!r}", field="path") from error

    async def _send_large(self, file: LocalFile) -> None:
        opened = os.fdopen(await to_the_end(self._open, file), "rb")
        sent = await self._upload(SeekableFile(opened, ours=True), self._advance)
        file.sha256, file.size = sent

    async def send_bytes(self, data: bytes) -> str:
        """Send bytes that are no file, and return their hash."""
        check_size("files", len(data), WORKSPACE_LIST_BYTES)
        return (await self._upload(BytesInMemory(data), lambda size: None))[0]

    async def _upload(self, source: Source, advance_by: Callable[[int], None]) -> tuple[str, int]:
        before = 0

        def advance(done: int, total: int | None) -> None:
            nonlocal before
            advance_by(done - before)
            before = done

        uploading = Uploading(self._hive, File(workspace_id=self._workspace_id), source, advance)
        try:
            stored = await uploading.run()
        except asyncio.CancelledError:
            await uploading.abandon()
            raise
        finally:
            await source.close()
        return stored.sha256, stored.size

    def _advance(self, size: int) -> None:
        self.sent_bytes += size
        if self._progress is not None:
            self._progress(self.sent_bytes, max(self._total, self.sent_bytes))
