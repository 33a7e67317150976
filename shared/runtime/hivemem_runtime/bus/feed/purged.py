"""Which messages of the feed were purged on purpose: a gap that is not written down here is a loss.

A purge is written down before it begins, in a stream of its own. Its messages live longer than the gaps: retention
removes the messages around a gap before the record of it.
"""

import asyncio
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Final

import orjson
import structlog
from nats.aio.client import Client
from pydantic import BaseModel, ValidationError

from hivemem_contracts.errors import Unavailable
from hivemem_contracts.streams import PURGED, PURGED_SUBJECT
from hivemem_runtime.bus.jetstream import NO_MESSAGE, STREAM_NOT_FOUND, JetStreamRefused, ask, message_of, publish

log = structlog.get_logger("hivemem.bus")

Range = tuple[int, int]
"""The first and the last of consecutive sequences."""

RANGES_AT_ONCE: Final = 4_000
_TIMEOUT_SECONDS: Final = 5.0


class PurgedSequences:
    """The purged sequences of the feed as it is now, as of the last `update`."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._feed = ""
        self._reached = 0
        self._ranges: list[Range] = []
        self._updating = asyncio.Lock()

    async def update(self, feed: str) -> None:
        """Read what was purged from the stream that was created at `feed`. Raises `Unavailable`.

        A caller that compares gaps reads the state of the stream first: each gap in it is written down by now."""
        async with self._updating:
            if feed != self._feed:
                self._feed, self._reached, self._ranges = feed, 0, []
            found: list[Range] = []
            try:
                while (data := await self._next()) is not None:
                    found += _ranges_of(data, feed)
            finally:
                # A record is read once, so what was read before an error counts, too.
                if found:
                    self._ranges = _merged([*self._ranges, *found])

    def count(self, first: int, last: int) -> int:
        """Return how many sequences from `first` to `last` were purged."""
        total = 0
        start = max(bisect_right(self._ranges, (first, first)) - 1, 0)
        for low, high in self._ranges[start:]:
            if low > last:
                break
            total += max(min(high, last) - max(low, first) + 1, 0)
        return total

    async def write_down(self, feed: str, sequences: Iterable[int]) -> None:
        """Store which messages are about to be purged. Raises `Unavailable`, also where another worker was faster."""
        await self.update(feed)
        ranges = _merged([(sequence, sequence) for sequence in sequences])
        for start in range(0, len(ranges), RANGES_AT_ONCE):
            part = ranges[start : start + RANGES_AT_ONCE]
            known = _merged([*self._ranges, *part])
            total = sum(high - low + 1 for low, high in known)
            body = {"feed": feed, "total": total, "ranges": part}
            expected = {"Nats-Expected-Last-Subject-Sequence": str(self._reached)}
            try:
                await publish(
                    self._client, PURGED_SUBJECT, orjson.dumps(body), expected, timeout_seconds=_TIMEOUT_SECONDS
                )
            except Unavailable:
                self._feed = ""  # to read the records anew, of which some may have expired
                raise
            await self.update(feed)

    async def _next(self) -> bytes | None:
        wanted = {"seq": self._reached + 1, "next_by_subj": PURGED_SUBJECT}
        try:
            message = message_of(await ask(self._client, f"STREAM.MSG.GET.KV_{PURGED}", wanted))
        except JetStreamRefused as error:
            if error.code not in (NO_MESSAGE, STREAM_NOT_FOUND):
                raise
            return None
        self._reached = message.sequence
        return message.data


class _Record(BaseModel):
    """Purged sequences of the stream that was created at `feed`."""

    feed: str
    ranges: list[Range]


def _ranges_of(data: bytes, feed: str) -> list[Range]:
    """Return the ranges of a record of this feed; an empty list for records of other feeds and for other messages."""
    try:
        record = _Record.model_validate_json(data)
    except ValidationError as error:
        log.warning("a record of purged changes cannot be read", error=str(error))
        return []
    return record.ranges if record.feed == feed else []


def _merged(ranges: Sequence[Range]) -> list[Range]:
    """Return the same sequences in order, in as few ranges as possible."""
    merged: list[Range] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = merged[-1][0], max(last, merged[-1][1])
        else:
            merged.append((first, last))
    return merged
