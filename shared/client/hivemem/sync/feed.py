"""The feed of changes, as an iterator."""

from collections import deque
from contextlib import suppress
from types import TracebackType
from typing import Self

from hivemem.changes import Change
from hivemem.connection import ClientClosed
from hivemem.feed import Feed
from hivemem.sync.blocking import Blocking
from hivemem.sync.loop_thread import LoopThread


class BlockingFeed(Blocking[Feed]):
    """Changes in the order of the stream, each once, over lost connections and restarts of the server.

    An iterator for one reader, which ends when it or its client is closed. A `for` loop over `hive.changes(…)` closes
    it when the loop is left; use it as a context manager, or call `close`, if you keep the feed. Raises a `FeedError`
    if changes were missed, and `Unavailable` if the feed cannot be opened within `timeout_seconds`. Once open, it waits
    for the server without a time limit.
    """

    def __init__(self, feed: Feed, thread: LoopThread) -> None:
        super().__init__(feed, thread)
        self._read: deque[Change] = deque()
        self._cursor: str | None = None

    @property
    def cursor(self) -> str | None:
        """The place after the last read change, or the start of the feed.

        None before the feed is open and, if it began at a time, until the first change.
        """
        return self._cursor or self.wrapped.cursor

    def open(self) -> None:
        """Open the feed: no later change is missed. Iterating opens it automatically."""
        self.thread.run(self.wrapped.open())

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Change:
        # By way of the queue, because an interrupted call may have read a change that it no longer returns.
        if not self._read:
            try:
                self.thread.run(self._take())
            except (StopAsyncIteration, ClientClosed):
                raise StopIteration from None
        change = self._read.popleft()
        self._cursor = change.cursor
        return change

    async def _take(self) -> None:
        self._cursor = self._cursor or self.wrapped.cursor
        self._read.append(await anext(self.wrapped))

    def close(self) -> None:
        """Stop, and delete the consumer on the server. A waiting reader ends."""
        with suppress(ClientClosed):
            self.thread.run(self.wrapped.close())

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
