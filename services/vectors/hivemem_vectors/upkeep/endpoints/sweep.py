"""Sweeps: memories, items, points and users' own vectors compared with one another, part by part.

What differs is repaired, whatever caused it: a change that the feed lost, points that the store lost, points that a
crash left behind. Any number may run at once, and while everything is written to.
"""

import asyncio
from functools import partial
from typing import Final

from hivemem_contracts.errors import InvalidRequest
from hivemem_contracts.identifiers import NAMESPACE_ROOTS
from hivemem_contracts.limits import CURSOR_CHARACTERS
from hivemem_contracts.vectors import operations, requests
from hivemem_contracts.vectors.replies import SweepPage
from hivemem_runtime.ledger.places import below
from hivemem_runtime.ledger.port import Ledger
from hivemem_runtime.paging import Bookmark
from hivemem_runtime.service import Call, Service
from hivemem_vectors.upkeep.decisions import Position, Tally
from hivemem_vectors.upkeep.endpoints.item_sweep import ItemSweep
from hivemem_vectors.upkeep.endpoints.memory_sweep import MemorySweep
from hivemem_vectors.upkeep.endpoints.vector_sweep import VectorSweep
from hivemem_vectors.upkeep.entities import SWEEP

PART_SECONDS: Final = 1.5
"""The approximate duration of one part."""

MEMORIES: Final = "memories"
ITEMS: Final = "items"
POINTS: Final = "points"
VECTORS: Final = "vectors"
VECTOR_POINTS: Final = "vector_points"
PHASES: Final = (MEMORIES, ITEMS, POINTS, VECTORS, VECTOR_POINTS)
_DIGITS: Final = 9

Paged = tuple[Tally, Position | None]
"""The counts of a page, and the position of the next one in the same part."""


def bind(service: Service, sweeping: "SweepEndpoint") -> None:
    service.handler(operations.SWEEP, partial(sweeping.sweep, service.ledger))


class SweepEndpoint:
    def __init__(self, memories: MemorySweep, items: ItemSweep, vectors: VectorSweep) -> None:
        self._memories = memories
        self._items = items
        self._vectors = vectors

    async def sweep(self, ledger: Ledger, call: Call, body: requests.SweepIndex) -> SweepPage:
        await ledger.commit(call.note(SWEEP, call.sender.tenant))
        return await self.part(call.sender.tenant, body.cursor, body.dry_run)

    def begin_at(self, tenant: str, phase: str) -> str:
        """Return the cursor of a sweep from a phase on."""
        return _bookmark(tenant).put(*_first(phase))

    async def part(self, tenant: str, cursor: str | None, dry_run: bool) -> SweepPage:
        """Sweep some pages. Raises `InvalidRequest` for a foreign cursor, and errors that end the part."""
        bookmark = _bookmark(tenant)
        position: Position | None = _first(MEMORIES)
        if cursor is not None:
            position = _checked(Position(*bookmark.find(cursor, str, str, str, str)))
        until = asyncio.get_running_loop().time() + PART_SECONDS
        whole = Tally()
        reached: str | None = None
        while position is not None:
            tally, following = await self._page(tenant, position, dry_run)
            whole.add(tally)
            position = following or _after(position)
            reached = None if position is None else bookmark.put(*position)
            # Where names are very long, in letters that are, a page may end where no cursor can say so.
            is_sayable = reached is None or len(reached) <= CURSOR_CHARACTERS
            if is_sayable and asyncio.get_running_loop().time() >= until:
                break
        return SweepPage(checked=whole.checked, missing=whole.missing, left_over=whole.left_over, cursor=reached)

    async def _page(self, tenant: str, at: Position, dry_run: bool) -> Paged:
        mark: str | None = None
        low: str | None = None
        match at.phase:
            case "memories":
                return await self._memories.page(tenant, at, dry_run=dry_run)
            case "items":
                tally, low = await self._items.items(tenant, at.low, dry_run=dry_run)
            case "vectors":
                tally, low = await self._vectors.vectors(tenant, at.low, dry_run=dry_run)
            case "points":
                tally, mark = await self._items.points(tenant, at.mark or None, dry_run=dry_run)
            case _:
                return await self._vector_points_page(tenant, at, dry_run)
        following = Position(at.phase, mark=mark or "", low=low or "")
        return tally, following if mark or low else None

    async def _vector_points_page(self, tenant: str, at: Position, dry_run: bool) -> Paged:
        """Sweep the points of users' vectors, dimension by dimension."""
        begun = int(at.part or 0)
        dimension = next((each for each in await self._vectors.dimensions(tenant) if each >= begun), None)
        if dimension is None:
            return Tally(), None
        mark = at.mark if dimension == begun else ""
        tally, after = await self._vectors.points(tenant, dimension, mark or None, dry_run=dry_run)
        if after is not None:
            return tally, Position(VECTOR_POINTS, str(dimension), after)
        return tally, Position(VECTOR_POINTS, str(dimension + 1))


def _first(phase: str) -> Position:
    return _in_root(NAMESPACE_ROOTS[0]) if phase == MEMORIES else Position(phase)


def _in_root(root: str) -> Position:
    return Position(MEMORIES, root, low=below(root)[0])


def _after(at: Position) -> Position | None:
    """Return the beginning of the next root of memories, or else of the next phase."""
    if at.phase == MEMORIES and at.part != NAMESPACE_ROOTS[-1]:
        return _in_root(NAMESPACE_ROOTS[NAMESPACE_ROOTS.index(at.part) + 1])
    following = PHASES.index(at.phase) + 1
    return None if following == len(PHASES) else Position(PHASES[following])


def _checked(position: Position) -> Position:
    """Return a position after a check of its form; the store checks its marks."""
    is_ours = position.phase in PHASES
    if position.phase == MEMORIES:
        is_ours = position.part in NAMESPACE_ROOTS
    elif position.phase == VECTOR_POINTS:
        is_ours = _is_number(position.part)
    if not is_ours:
        raise InvalidRequest("cursor: none that a sweep has given out", field="cursor")
    return position


def _is_number(part: str) -> bool:
    return part == "" or (part.isdecimal() and len(part) <= _DIGITS)


def _bookmark(tenant: str) -> Bookmark:
    return Bookmark("sweep", tenant)
