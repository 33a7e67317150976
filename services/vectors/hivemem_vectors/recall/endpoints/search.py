"""The search for one question: in the index, among newer versions that wait for it, or in the mirror instead of it."""

import asyncio
from collections.abc import Awaitable
from typing import Final, NamedTuple

from hivemem_contracts.errors import HiveError
from hivemem_contracts.vectors.models import DegradedReason
from hivemem_runtime.bounded import BoundedDict
from hivemem_vectors.recall.decisions.filters import Question
from hivemem_vectors.recall.decisions.ranking import SCORED, Piece, pieces_of
from hivemem_vectors.recall.endpoints.mirror import MirrorSearch, WaitingItems
from hivemem_vectors.stores.guarded import GuardedStore
from hivemem_vectors.stores.ports import POINTS_PER_CALL, Filter, Vector
from hivemem_vectors.stores.search import hybrid_search

POINTS_PER_ITEM: Final = 4
"""How many points are searched for each wanted item: several may belong to one item, or to an older version."""
FEWEST_POINTS: Final = 40
COUNT_SECONDS: Final = 5.0
"""How long the count of a tenant's points is reused: only its order of magnitude matters."""
TENANTS_COUNTED: Final = 10_000


class Shortfall(NamedTuple):
    """Why an answer may lack something."""

    reason: DegradedReason
    detail: str


class Findings(NamedTuple):
    """The pieces that were found, of any version in the index unless a newer one waits. With `more`, a deeper search
    may find more of them."""

    pieces: list[Piece]
    shortfalls: list[Shortfall]
    more: bool


class ItemSearch:
    """Searches the index, which may fail, and the ledger beside it."""

    def __init__(self, store: GuardedStore, collection: str, mirrors: MirrorSearch) -> None:
        self._store = store
        self._collection = collection
        self._mirrors = mirrors
        self._counts = BoundedDict[str, tuple[float, int]](TENANTS_COUNTED)
        self._counting: dict[str, asyncio.Task[None]] = {}

    async def prepare(self, tenant: str, prefix: str | None) -> WaitingItems:
        """Begin to count the tenant's points, and return the items that wait for the index."""
        self._begin_counting(tenant)
        return await self._mirrors.waiting(tenant, prefix)

    async def search(
        self, question: Question, vector: Awaitable[Vector | None], waiting: WaitingItems, *, deeper: bool
    ) -> Findings:
        """Search by the vector, and by the words while it is under way. A `deeper` search follows one in which too many
        hits were outdated."""
        shortfalls = [Shortfall("behind", waiting.detail)] if waiting.items else []
        points = max(POINTS_PER_ITEM * question.limit, FEWEST_POINTS)
        if deeper:
            points = min(points * POINTS_PER_ITEM, POINTS_PER_CALL)
        where = Filter(question.tenant, question.conditions(unexpired=deeper))
        words = question.words if question.words.indices else None
        try:
            hits = await hybrid_search(self._store, self._collection, where, vector, words, limit=points, values=SCORED)
        except HiveError as error:
            found = await self._without_index(question, await vector, error.detail)
            return Findings(found.pieces, [*shortfalls, *found.shortfalls], more=False)
        documents = await self._count(question.tenant)
        pieces = pieces_of(hits, question, documents=documents, replaced=waiting.mirrors)
        if waiting.mirrors:
            pieces += await self._mirrors.among(waiting.mirrors, question, await vector)
        return Findings(pieces, shortfalls, more=not deeper and len(hits) >= points)

    async def _without_index(self, question: Question, vector: Vector | None, reason: str) -> Findings:
        searched = await self._mirrors.everywhere(question, vector)
        detail = f"the index cannot be used: {reason}"
        if not searched.complete:
            detail += f"; {searched.items} items were looked at instead, and there are more"
        return Findings(searched.pieces, [Shortfall("index", detail)], more=False)

    def _begin_counting(self, tenant: str) -> None:
        counted = self._counts.get(tenant)
        is_fresh = counted is not None and asyncio.get_running_loop().time() - counted[0] < COUNT_SECONDS
        if not is_fresh and tenant not in self._counting and self._store.breaker.state == "closed":
            task = self._counting[tenant] = asyncio.create_task(self._count_points(tenant))
            task.add_done_callback(lambda _: self._counting.pop(tenant))

    async def _count(self, tenant: str) -> int:
        """Return the tenant's number of points, a few seconds old at most, or older if the store does not answer."""
        task = self._counting.get(tenant)
        if task is not None:
            await asyncio.wait([task])  # a cancellation here must not cancel the count, which others may wait for
        counted = self._counts.get(tenant)
        return 0 if counted is None else counted[1]

    async def _count_points(self, tenant: str) -> None:
        try:
            count = await self._store.count(self._collection, Filter(tenant))
        except HiveError:
            return
        self._counts[tenant] = (asyncio.get_running_loop().time(), count)
