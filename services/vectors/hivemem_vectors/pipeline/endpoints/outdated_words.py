"""Tenants whose points have words of an earlier scheme, until a sweep has given them those of today."""

import asyncio
from typing import Final

from hivemem_runtime.bounded import BoundedDict
from hivemem_vectors.pipeline.decisions.keywords import SCHEME
from hivemem_vectors.pipeline.decisions.points import ALONE
from hivemem_vectors.stores.guarded import GuardedStore
from hivemem_vectors.stores.ports import Filter, OneOf

TENANTS_KEPT: Final = 10_000
FRESH_SECONDS: Final = 5.0
_NEVER: Final = float("inf")


class OutdatedWords:
    """Asks the store, until a tenant has none left. `collection` holds the points of all items."""

    def __init__(self, store: GuardedStore, collection: str) -> None:
        self._store = store
        self._collection = collection
        self._known = BoundedDict[str, tuple[float, bool]](TENANTS_KEPT)
        """By tenant: until when the answer holds, and whether there are any."""

    async def remain(self, tenant: str) -> bool:
        """Return whether a tenant has such points. Raises the errors of the store."""
        now = asyncio.get_running_loop().time()
        until, remain = self._known.get(tenant, (0.0, False))
        if until <= now:
            # In this order, points that are indexed meanwhile do not seem to be outdated.
            everything = await self._store.count(self._collection, Filter(tenant))
            todays = Filter(tenant, [OneOf("scheme", [ALONE, SCHEME])])
            remain = everything > 0 and everything > await self._store.count(self._collection, todays)
            self._known[tenant] = now + FRESH_SECONDS if remain else _NEVER, remain
        return remain
