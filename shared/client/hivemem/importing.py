"""Imports the lines of an export: with retries, and past refused lines."""

from collections.abc import AsyncIterable, Callable
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any, Final, Literal, cast

import orjson

from hivemem.lines import FilePath, Line, read_lines
from hivemem.transfer import SCHEMA, Progress
from hivemem_contracts.errors import HiveError, InvalidRequest, TooLarge, error_from_body
from hivemem_contracts.limits import BATCH_ITEMS, MESSAGE_BYTES
from hivemem_contracts.memory.replies import MemoriesImported
from hivemem_contracts.memory.requests import ImportedMemory, ImportMemories
from hivemem_contracts.model import decode_body

if TYPE_CHECKING:
    from hivemem.hive import Hive

BATCH_BYTES: Final = 700_000
"""The bytes of lines in one request. Their times and numbers are rewritten, so they may grow a little."""
PROBLEMS_KEPT: Final = 100

Existing = Literal["update", "keep"]


@dataclass(slots=True)
class Imported:
    """The outcome of an import."""

    created: int = 0
    updated: int = 0
    unchanged: int = 0
    kept: int = 0
    refused: int = 0
    through_line: int = 0
    """Every line up to this one is settled."""
    problems: list[HiveError] = field(default_factory=list[HiveError])
    """The errors of the first hundred refused lines; `context["line"]` is the number of the line."""

    @property
    def memories(self) -> int:
        return self.created + self.updated + self.unchanged + self.kept + self.refused


class Importer:
    """Imports lines in batches, one after the other, so that the later of two lines with one key wins."""

    def __init__(self, hive: "Hive", existing: Existing) -> None:
        self._hive = hive.with_options(message_id=None)
        self._existing: Existing = existing
        self._batch: list[tuple[Line, ImportedMemory]] = []
        self._bytes = 0
        self.done = Imported()

    async def take(self, line: Line) -> bool:
        """Add a line, and return whether this settled a batch."""
        try:
            if not line.whole:
                raise TooLarge(f"over {MESSAGE_BYTES} bytes", field="body", limit=MESSAGE_BYTES)
            item = decode_body(ImportedMemory, line.text)
        except HiveError as error:
            self._refuse(line, error)
            return False
        full = len(self._batch) == BATCH_ITEMS or self._bytes + len(line.text) > BATCH_BYTES
        settled = full and bool(self._batch)
        if settled:
            await self.settle()
        self._batch.append((line, item))
        self._bytes += len(line.text)
        return settled

    async def settle(self) -> None:
        batch, self._batch, self._bytes = self._batch, [], 0
        if batch:
            await self._send(batch)
            self.done.through_line = batch[-1][0].number

    async def _send(self, batch: list[tuple[Line, ImportedMemory]]) -> None:
        items = [item for _, item in batch]
        body = ImportMemories.model_construct(items=items, existing=self._existing)
        try:
            reply = await self._hive.request("memory.import", body)
        except TooLarge as error:
            if len(batch) == 1:
                self._refuse(batch[0][0], error)
                return
            half = len(batch) // 2
            await self._send(batch[:half])
            await self._send(batch[half:])
            return
        for (line, _), result in zip(batch, cast("MemoriesImported", reply).results, strict=True):
            if result.outcome == "refused":
                self._refuse(line, error_from_body({"error": result.error}))
            else:
                setattr(self.done, result.outcome, getattr(self.done, result.outcome) + 1)

    def _refuse(self, line: Line, error: HiveError) -> None:
        self.done.refused += 1
        if len(self.done.problems) < PROBLEMS_KEPT:
            self.done.problems.append(at_line(error, line.number))


def at_line(error: HiveError, number: int) -> HiveError:
    """Return the error with the number of its line."""
    error.detail = f"line {number}: {error.detail}"
    error.args = (error.detail,)
    error.context["line"] = number
    return error


async def import_from(
    hive: "Hive",
    source: FilePath | IO[bytes] | AsyncIterable[str],
    existing: Existing,
    after_line: int,
    progress: Callable[[Progress], None] | None,
) -> Imported:
    importer = Importer(hive, existing)
    importer.done.through_line = after_line
    line = Line(0, b"", 0)

    def tell() -> None:
        if progress is not None:
            progress(Progress(importer.done.memories, line.end, line.end / total if total else None))

    async with read_lines(source) as (lines, total):
        try:
            async for line in lines:
                if line.number == 1:
                    _check_header(line.text)
                elif line.number > after_line and line.text and await importer.take(line):
                    tell()
            if line.number == 0:
                _check_header(b"")
            await importer.settle()
            tell()
        except HiveError as error:
            error.context.setdefault("through_line", importer.done.through_line)
            raise
    importer.done.through_line = max(after_line, line.number)
    return importer.done


def _check_header(line: bytes) -> None:
    try:
        header: Any = orjson.loads(line)
    except orjson.JSONDecodeError:
        header = None
    fields = cast("dict[str, Any]", header) if isinstance(header, dict) else {}
    if fields.get("hivemem") != "memory":
        raise InvalidRequest("line 1: this is not an export of memories", field="hivemem", line=1)
    if fields.get("schema") != SCHEMA:
        found = fields.get("schema")
        raise InvalidRequest(f"line 1: schema {found!r}, this client reads {SCHEMA}", field="schema", line=1)
