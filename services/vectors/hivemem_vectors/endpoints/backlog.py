"""How much of the feed the index has not taken up yet."""

import time
from typing import Final

from hivemem_contracts.changes import Change
from hivemem_contracts.errors import Unavailable
from hivemem_contracts.identifiers import microseconds_from_time
from hivemem_contracts.subjects import encode_token, namespace_tokens
from hivemem_runtime.bus.connection import Client
from hivemem_runtime.bus.feed_reading import FeedReading
from hivemem_vectors.endpoints.catching_up import MEMORIES

CHANGES_OF_MEMORIES: Final = "hive.chg.*.memory.>"
RETRY_AFTER_MS: Final = 500


class Backlog:
    """Usable between `start` and `stop`. Raises `Unavailable`."""

    def __init__(self) -> None:
        self._feed: FeedReading | None = None

    async def start(self, client: Client) -> None:
        self._feed = FeedReading(client)

    async def stop(self) -> None:
        self._feed = None

    async def changes(self) -> int:
        """Of all tenants."""
        return await self._reading().waiting(MEMORIES)

    async def reaches_back_to(self) -> int:
        """When the oldest of them was committed, in microseconds since 1970; now, where there is none. All that was
        announced of the time before is taken up."""
        feed = self._reading()
        now = time.time_ns() // 1_000
        oldest = await feed.next(CHANGES_OF_MEMORIES, await feed.acknowledged(MEMORIES))
        if oldest is None:
            return now
        return min(now, microseconds_from_time(Change.model_validate_json(oldest.data).at))

    async def end(self) -> int:
        """Where the feed ends now."""
        return await self._reading().last_sequence()

    async def is_taken_up(self, tenant: str, prefix: str, end: int) -> bool:
        """Whether the index was told of all that the feed had below a prefix when it ended there."""
        feed = self._reading()
        tokens = ("hive", "chg", encode_token(tenant), "memory", *namespace_tokens(prefix), ">")
        oldest = await feed.next(".".join(tokens), await feed.acknowledged(MEMORIES))
        return oldest is None or oldest.sequence > end

    def _reading(self) -> FeedReading:
        if self._feed is None:
            raise Unavailable("this worker is stopping", retry_after_ms=RETRY_AFTER_MS)
        return self._feed
