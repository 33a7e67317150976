"""Searching the mirror: what waits for the index, or, where the index cannot be used, as much as there is time for."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from hivemem_runtime.batches import batches
from hivemem_runtime.ledger.current import current_values
from hivemem_runtime.ledger.port import Head, Ledger
from hivemem_vectors.pipeline.entities import ITEM, MIRROR, Item, Mirror
from hivemem_vectors.recall.decisions.filters import Question, range_below
from hivemem_vectors.recall.decisions.mirror_scan import MirrorScan
from hivemem_vectors.recall.decisions.ranking import Piece
from hivemem_vectors.stores.ports import Vector

WAITING_ITEMS: Final = 200
WAITING_CHUNKS: Final = 4_000
ITEMS: Final = 2_000
CHUNKS: Final = 20_000
SECONDS: Final = 2.0
READ_AT_ONCE: Final = 50
CHUNKS_READ_AT_ONCE: Final = 1_000
"""A mirror may be of megabytes."""


class WaitingItems(NamedTuple):
    """The items that wait for the index below a prefix, or `more` of them. Each mirror is newer than the indexed
    version."""

    items: int
    more: bool
    reason: str | None
    mirrors: Mapping[str, Mirror]

    @property
    def detail(self) -> str:
        count = "1 item waits" if self.items == 1 else f"{self.items} items wait"
        told = f"{'more than ' if self.more else ''}{count} for the index"
        return told if self.reason is None else f"{told}: {self.reason}"


NOTHING_WAITS: Final = WaitingItems(0, False, None, {})


class MirrorFindings(NamedTuple):
    """The pieces that were found in the mirrors of `items` items; all of them if the search was `complete`."""

    pieces: list[Piece]
    items: int
    complete: bool


class MirrorSearch:
    """Searches mirrors; `model` is the model of the questions."""

    def __init__(self, ledger: Ledger, model: str) -> None:
        self._ledger = ledger
        self._model = model

    async def waiting(self, tenant: str, prefix: str | None) -> WaitingItems:
        low, high = range_below(prefix)
        page = await self._ledger.find(ITEM, tenant, "waiting", equals={}, low=low, high=high, limit=WAITING_ITEMS)
        heads = {head.id: head.value for head in page.items if head.value is not None}
        if not heads:
            return NOTHING_WAITS
        mirrors: dict[str, Mirror] = {}
        places, looked_at, chunks = list(heads), 0, 0
        while looked_at < len(places) and chunks < WAITING_CHUNKS:
            found = await self._mirrors(tenant, places[looked_at : looked_at + READ_AT_ONCE])
            looked_at += READ_AT_ONCE
            chunks += sum([len(mirror.texts) for mirror in found.values()])
            mirrors.update((place, mirror) for place, mirror in found.items() if _is_newer(mirror, heads[place]))
        items = min(looked_at, len(places))
        return WaitingItems(items, page.cursor is not None or items < len(places), _reason(heads.values()), mirrors)

    async def among(self, mirrors: Mapping[str, Mirror], question: Question, vector: Vector | None) -> list[Piece]:
        """Search these mirrors."""
        scan = MirrorScan(question, vector, self._model)

        def search() -> list[Piece]:
            scan.add(mirrors)
            return scan.pieces()

        return await asyncio.to_thread(search)

    async def everywhere(self, question: Question, vector: Vector | None) -> MirrorFindings:
        """Search the mirrors below the prefix, within a bound.

        Keys that are ULIDs sort by time, so the newest memories of such a namespace are searched first."""
        scan = MirrorScan(question, vector, self._model)
        low, high = range_below(question.prefix)
        loop = asyncio.get_running_loop()
        until = loop.time() + SECONDS
        items, cursor = 0, None
        while True:
            page = await self._ledger.find(
                ITEM,
                question.tenant,
                "all",
                equals={},
                low=low,
                high=high,
                reverse=True,
                cursor=cursor,
                limit=READ_AT_ONCE,
            )
            for places in _parts(page.items):
                await asyncio.to_thread(scan.add, await self._mirrors(question.tenant, places))
                items += len(places)
            cursor = page.cursor
            if cursor is None or items >= ITEMS or scan.chunks >= CHUNKS or loop.time() >= until:
                return MirrorFindings(await asyncio.to_thread(scan.pieces), items, cursor is None)

    async def _mirrors(self, tenant: str, places: Sequence[str]) -> dict[str, Mirror]:
        return await current_values(self._ledger, MIRROR, tenant, places)


def _parts(heads: Iterable[Head[Item]]) -> Iterator[list[str]]:
    """Yield the places of living items, as many as are read at once."""
    chunks = {head.id: head.value.chunks for head in heads if head.value is not None and not head.value.gone}
    return batches(chunks, chunks.__getitem__, most=CHUNKS_READ_AT_ONCE, most_items=READ_AT_ONCE)


def _is_newer(mirror: Mirror, item: Item) -> bool:
    return mirror.version is not None and (item.indexed is None or mirror.version > item.indexed)


def _reason(items: Iterable[Item]) -> str | None:
    """Return the most common error of waiting items."""
    reasons = Counter([item.error for item in items if item.error is not None])
    return reasons.most_common(1)[0][0] if reasons else None
