"""A memory service in a dictionary, with the reads that the index needs, for tests without a real one."""

import time
from collections.abc import Sequence
from typing import Any, Final

from hivemem_contracts.errors import Unavailable
from hivemem_contracts.identifiers import covers, format_microseconds
from hivemem_runtime.bus.requests.outgoing import Asking
from hivemem_runtime.ledger.places import namespace_and_key, place_of
from hivemem_vectors.pipeline.decisions.changes import ItemVersion, version_of_memory
from hivemem_vectors.pipeline.endpoints.peers import FeedPosition, MemoryService, Name

TENANT: Final = "acme"
NAMESPACE: Final = "user:alice"
LONG_AGO: Final = 1_750_000_000_000_000


class Cabinet(MemoryService):
    """Memories in a dictionary, `page_size` per page. The versions of an erased memory continue after the erasure."""

    def __init__(self) -> None:
        super().__init__(Asking())
        self.memories: dict[str, dict[str, Any]] = {}
        """The memories by place."""
        self.fences: dict[str, int] = {}
        self.page_size = 1_000
        self.is_down = False
        self.pages = 0

    def put(
        self, key: str, value: Any, *, namespace: str = NAMESPACE, at: int = LONG_AGO, tenant: str = TENANT
    ) -> ItemVersion:
        """Put a memory and return its change on the feed."""
        memory = self._write(namespace, key, at, value=value, deleted=False)
        return version_of_memory(tenant, memory)

    def delete(self, key: str, *, namespace: str = NAMESPACE, at: int = LONG_AGO) -> ItemVersion:
        return version_of_memory(TENANT, self._write(namespace, key, at, value=None, deleted=True))

    def erase(self, key: str, *, namespace: str = NAMESPACE, receipt: str | None = None) -> ItemVersion:
        place = place_of(namespace, key)
        version = self.memories.pop(place)["version"] + 1
        self.fences[place] = version
        return ItemVersion(TENANT, place, version, True, {}, None, receipt=receipt)

    def _write(self, namespace: str, key: str, at: int, **fields: Any) -> dict[str, Any]:
        place = place_of(namespace, key)
        before = self.memories.get(place)
        version = (self.fences.get(place, 0) if before is None else before["version"]) + 1
        moment = format_microseconds(at)
        self.memories[place] = {
            "namespace": namespace,
            "key": key,
            "memory_type": "semantic",
            "version": version,
            "metadata": {},
            "importance": None,
            "valid_from": None,
            "valid_to": None,
            "expires_at": None,
            "created_by": "bot",
            "updated_by": "bot",
            "created_at": moment,
            "updated_at": moment,
            **fields,
        }
        return self.memories[place]

    async def get_many(self, tenant: str, agent: str, names: Sequence[Name]) -> dict[Name, dict[str, Any]]:
        self._check()
        found = {name: self.memories.get(place_of(*name)) for name in names}
        return {name: memory for name, memory in found.items() if memory is not None and not memory["deleted"]}

    async def newest(self, tenant: str, agent: str, name: Name) -> dict[str, Any] | None:
        self._check()
        return self.memories.get(place_of(*name)) if tenant == TENANT else None

    async def page(
        self, tenant: str, prefix: str, *, newest_first: bool = False, limit: int, cursor: str | None = None
    ) -> tuple[list[dict[str, Any]], str | None]:
        self._check()
        self.pages += 1
        places = sorted(
            place
            for place in self.memories
            if tenant == TENANT and covers(prefix, namespace_and_key(place)[0]) and place > (cursor or "")
        )
        some = places[: min(limit, self.page_size)]
        return [self.memories[place] for place in some], some[-1] if len(some) < len(places) else None

    def _check(self) -> None:
        if self.is_down:
            raise Unavailable("memory is not answered", retry_after_ms=1)


class Quiet(FeedPosition):
    """An empty feed, unless a test fills it."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting = 0
        self.oldest: int | None = None

    async def changes(self) -> int:
        return self.waiting

    async def reaches_back_to(self) -> int:
        return time.time_ns() // 1_000 if self.oldest is None else self.oldest
