"""How much of the feed the index has not taken up yet."""

from typing import Final

from hivemem_contracts.errors import Unavailable
from hivemem_contracts.identifiers import microseconds_from_time
from hivemem_contracts.subjects import encode_token, namespace_tokens
from hivemem_runtime.background import Background
from hivemem_runtime.bus.connection import Client
from hivemem_runtime.bus.feed_reading import FeedReading, FeedState
from hivemem_runtime.clock import now_microseconds
from hivemem_vectors.recall.endpoints.index_lag import MEMORIES

CHANGES_OF_MEMORIES: Final = "hive.chg.*.memory.>"
RETRY_AFTER_MS: Final = 500
PASSED_OVER: Final = 100
"""Messages in a row that are no changes: the reaction sorts them out."""


class Backlog(Background):
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
        now = now_microseconds()
        oldest = await feed.next(CHANGES_OF_MEMORIES, await feed.acknowledged(MEMORIES))
        for _ in range(PASSED_OVER):
            if oldest is None:
                return now
            change = oldest.change()
            if change is not None:
                return min(now, microseconds_from_time(change.at))
            oldest = await feed.next(CHANGES_OF_MEMORIES, oldest.sequence)
        raise Unavailable("the feed has too many messages that are no changes", retry_after_ms=RETRY_AFTER_MS)

    async def end(self) -> FeedState:
        """Return where the feed ends now."""
        return await self._reading().state()

    async def is_taken_up(self, tenant: str, prefix: str, end: FeedState) -> bool:
        """Return whether the index has taken up every change below a prefix through an end of the feed.
        False if the feed has another identity by now."""
        feed = self._reading()
        tokens = ("hive", "chg", encode_token(tenant), "memory", *namespace_tokens(prefix), ">")
        oldest = await feed.next(".".join(tokens), await feed.acknowledged(MEMORIES))
        if oldest is not None and oldest.sequence <= end.last_sequence:
            return False
        return await feed.identity() == end.identity

    def _reading(self) -> FeedReading:
        if self._feed is None:
            raise Unavailable("this worker is stopping", retry_after_ms=RETRY_AFTER_MS)
        return self._feed
