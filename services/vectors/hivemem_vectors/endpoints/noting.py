"""What the ledger knows of items: read, and written many at a time."""

import asyncio
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from hivemem_runtime.ledger.entity import AnyEntity, Entity, HeadT
from hivemem_runtime.ledger.port import Decision, Heads, Ledger, system_write
from hivemem_vectors.decisions.drafting import ITEMS_PER_GROUP, Draft
from hivemem_vectors.decisions.syncing import Gone, Noted, note, remove
from hivemem_vectors.entities.items import ITEM, Item, is_event, session_of
from hivemem_vectors.entities.mirrors import MIRROR, Mirror
from hivemem_vectors.entities.sessions import FOLLOWED

READ_AT_ONCE: Final = 500
_SPREAD: Final = (0.75, 1.25)

Key = tuple[str, str]
"""A tenant and a place."""

Useless = dict[str, list[str]]
"""By tenant the names of points that nobody counts any more."""


class Noting:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def items(self, keys: Iterable[Key]) -> dict[Key, Item]:
        return await self._values(ITEM, keys)

    async def mirrors(self, keys: Iterable[Key]) -> dict[Key, Mirror]:
        return await self._values(MIRROR, keys)

    async def note(self, drafts: Sequence[Draft], *, anew: bool) -> Useless:
        """How far each of them came."""
        assert len(drafts) <= ITEMS_PER_GROUP
        by_tenant: dict[str, list[Draft]] = {}
        for draft in drafts:
            by_tenant.setdefault(draft.tenant, []).append(draft)
        noted = await asyncio.gather(*(self._note(tenant, some, anew) for tenant, some in by_tenant.items()))
        return {tenant: one.useless for tenant, one in zip(by_tenant, noted, strict=True) if one.useless}

    async def remove(self, tenant: str, gone: Sequence[Gone]) -> list[str]:
        """That their points are removed, or are not yet; returns the names of further ones."""
        assert len(gone) <= ITEMS_PER_GROUP
        spread = [one._replace(spread=_spread()) for one in gone]
        noted = await self._commit(tenant, [one.place for one in gone], lambda heads, now: remove(heads, spread, now))
        return noted.useless

    async def _note(self, tenant: str, drafts: Sequence[Draft], anew: bool) -> Noted:
        outcomes = [draft.outcome(_spread() if draft.failure else 1.0, anew=anew) for draft in drafts]
        places = [draft.place for draft in drafts]
        return await self._commit(tenant, places, lambda heads, now: note(heads, outcomes, now))

    async def _commit(self, tenant: str, places: Sequence[str], decide: Callable[[Heads, int], Noted]) -> Noted:
        noted = Noted()

        def decide_all(heads: Heads, now: int) -> Decision:
            nonlocal noted
            noted = decide(heads, now)
            return noted.appends

        reads: list[tuple[AnyEntity, str]] = [(ITEM, place) for place in places]
        reads += [(FOLLOWED, id) for id in {session_of(place) for place in places if is_event(place)}]
        await self._ledger.commit(system_write(tenant, ITEM, places[0], decide_all, reads))
        return noted

    async def _values(self, entity: Entity[HeadT, HeadT], keys: Iterable[Key]) -> dict[Key, HeadT]:
        """Of those that there are."""
        by_tenant: dict[str, list[str]] = {}
        for tenant, place in keys:
            by_tenant.setdefault(tenant, []).append(place)
        found: dict[Key, HeadT] = {}
        for tenant, places in by_tenant.items():
            for start in range(0, len(places), READ_AT_ONCE):
                heads = await self._ledger.heads(entity, tenant, places[start : start + READ_AT_ONCE])
                found.update({(tenant, id): head.value for id, head in heads.items() if head.value is not None})
        return found


def _spread() -> float:
    """So that not everything that waits is tried at the same moment."""
    return random.uniform(*_SPREAD)  # noqa: S311 nothing is kept secret
