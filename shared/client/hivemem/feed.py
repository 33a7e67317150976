"""The feed of changes: an ordered push consumer that is recreated at the reader's place whenever it is lost."""

import asyncio
import base64
import json
import logging
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, Literal, Self

import pydantic

from hivemem.change_reader import read_change
from hivemem.changes import Change
from hivemem.connection import ClientClosed, Connection, NoAnswer
from hivemem.consumer import Consumer, make_consumer
from hivemem.cursor import Cursor, StreamState, cursor_text, nanoseconds
from hivemem.feed_buffer import FlowControl, Pushed
from hivemem.feed_errors import FeedError, FeedRecreated, FeedTruncated, UnreadableChange
from hivemem.jetstream import JetStreamError, jetstream
from hivemem.options import CallOptions
from hivemem.prefixes import feed_filters
from hivemem_contracts.errors import InvalidRequest, Unavailable
from hivemem_contracts.identifiers import format_time, microseconds_from_time
from hivemem_contracts.streams import CHANGES, PURGED, PURGED_SUBJECT
from hivemem_contracts.subjects import change_prefix

log = logging.getLogger("hivemem")

SILENCE_SECONDS: Final = 2.5
"""A consumer that is silent for this long is considered lost; it has a heartbeat a second."""

RETRY_SECONDS: Final = 0.25
VERIFY_SECONDS: Final = 1.0
NO_MESSAGE: Final = 10037


def prefix(entity: str, *parts: str, key: str | None = None) -> str:
    """Return the address for `changes`: `prefix("event", "any id")`, `prefix("state", "user", "alice")`.

    Each part is free text and is escaped. Fewer parts follow everything below them.
    """
    return change_prefix(entity, *parts, key=key)


class Feed:
    """Changes in the order of the stream, each once, over lost connections and restarts of the server.

    An async iterator for one reader, which ends when it or its client is closed. Use it as a context manager, or call
    `close`, so that the server deletes it at once. While nobody reads, the server holds changes back: at most 64 MiB
    wait here. Raises a `FeedError` if changes were missed, and `Unavailable` if the feed cannot be opened within
    `timeout_seconds`. Once open, it waits for the server without a time limit.
    """

    _consumer: Consumer | None = None

    def __init__(
        self,
        connection: Connection,
        tenant: str,
        prefix: str | None,
        since: str | datetime,
        on_gap: Literal["raise", "skip"],
        options: CallOptions,
    ) -> None:
        self._connection = connection
        self._filters = feed_filters(tenant, prefix)
        self._since = _start_of(since)
        self._skips = on_gap == "skip"
        self._options = options
        self._created: int | None = None
        self._epoch = ""
        self._after: int | None = None
        self._stored_at = 0
        if isinstance(self._since, Cursor):
            self._created, self._epoch = self._since.created, self._since.epoch
            self._after, self._stored_at = self._since.sequence, self._since.stored_at
        self._verified_at = 0.0
        self._verified_up_to = 0
        self._opened = False
        self._closed = False

    @property
    def cursor(self) -> str | None:
        """The place after the last read change, or the start of the feed.

        None before the feed is open and, if it began at a time, until the first change.
        """
        if self._created is None or self._after is None:
            return None
        return str(Cursor(self._created, self._after, self._epoch, self._stored_at))

    async def open(self) -> None:
        """Open the feed: no later change is missed. Iterating opens it automatically."""
        if self._opened:
            return
        await self._connection.open()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._options.timeout_seconds
        while True:
            try:
                await self._begin()
            except (NoAnswer, JetStreamError) as error:
                if loop.time() + RETRY_SECONDS >= deadline:
                    raise _not_opened(error) from error
                await self._pause()
            else:
                self._opened = True
                return

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Change:
        try:
            while not self._closed:
                consumer = self._consumer
                if consumer is not None and consumer.delivery.doubtful:
                    await self._verify(consumer)
                item = consumer.delivery.next() if consumer is not None else None
                if isinstance(item, Pushed):
                    change = self._read(item)
                    if change is not None:
                        return change
                elif isinstance(item, FlowControl):
                    await self._connection.publish(item.subject)
                else:
                    await self._wait()
        except ClientClosed:
            await self.close()
        raise StopAsyncIteration

    async def close(self) -> None:
        """Stop, and delete the consumer on the server. A waiting reader ends."""
        self._closed = True
        await self._drop()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __del__(self) -> None:
        # A bare `async for` that was left early: nobody else could close the feed.
        if self._consumer is not None:
            self._consumer.abandon()

    def _read(self, item: Pushed) -> Change | None:
        assert self._created is not None, "an open feed knows its stream"
        self._after, self._stored_at = item.sequence, item.stored_at
        cursor = cursor_text(self._created, item.sequence, self._epoch, item.stored_at)
        try:
            change = read_change(item.data)
        except pydantic.ValidationError as error:
            if not item.signed:
                log.debug("sequence %d on %s is from no worker", item.sequence, item.subject)
                return None
            detail = f"sequence {item.sequence} on {item.subject} is not a change: {error.errors()[0]['msg']}"
            gap = UnreadableChange(detail, resume=cursor, sequence=item.sequence, subject=item.subject)
            self._gap(gap, error)
            return None
        # Set past the validation, which would cost a second pass. The body cannot forge them: they come after it.
        fields = vars(change)
        if change.entity != "other":
            fields["kind"] = f"{change.entity}.{change.operation}"
        fields["sequence"], fields["subject"], fields["cursor"] = item.sequence, item.subject, cursor
        fields["data"] = item.data
        return change

    async def _wait(self) -> None:
        """Open, recover, or wait for the server, when the buffer is empty."""
        consumer = self._consumer
        if not self._opened:
            await self.open()
        elif consumer is None or consumer.is_lost(SILENCE_SECONDS):
            try:
                await self._begin()
            except (NoAnswer, JetStreamError) as error:
                log.debug("the feed waits for the server: %r", error)
                await self._pause()
        else:
            await consumer.delivery.wait(SILENCE_SECONDS)

    async def _pause(self) -> None:
        if await self._connection.wait_connected(RETRY_SECONDS):
            await asyncio.sleep(RETRY_SECONDS)

    async def _begin(self) -> None:
        """Create a consumer at the reader's place."""
        await self._drop()
        connection = self._connection.epoch
        stream = await self._stream()
        self._place(stream, is_another=await self._is_another(stream))
        if self._after is None:
            assert isinstance(self._since, datetime), "only a start by time has no sequence"
            start: dict[str, Any] = {"deliver_policy": "by_start_time", "opt_start_time": format_time(self._since)}
            after = stream.last
        else:
            start = {"deliver_policy": "by_start_sequence", "opt_start_seq": self._after + 1}
            after = self._after
        seconds = self._options.attempt_seconds
        consumer = await make_consumer(self._connection, self._filters, start, after, seconds)
        try:
            await self._confirm(stream, connection)
        except BaseException:
            await consumer.drop()
            raise
        self._consumer = consumer
        self._verified_at, self._verified_up_to = asyncio.get_running_loop().time(), after

    async def _confirm(self, placed: StreamState, connection: int) -> None:
        """Raise `JetStreamError` if the stream was recreated or lost its end since the reader took its place: then the
        sequences name other changes."""
        stream = await self._stream()
        same = (stream.created, stream.epoch) == (placed.created, placed.epoch) and stream.last >= placed.last
        if not same or self._connection.epoch != connection:
            raise JetStreamError(503, 0, f"{CHANGES} changed while a reader took its place")

    async def _is_another(self, stream: StreamState) -> bool:
        """Return whether the stream now has another change at the place of the last read one."""
        if self._after is None or not self._stored_at or not stream.first <= self._after <= stream.last:
            return False
        try:
            found = await jetstream(
                self._connection, f"STREAM.MSG.GET.{CHANGES}", {"seq": self._after}, self._options.attempt_seconds
            )
        except NoAnswer:
            return False  # without the right to ask, the epoch alone decides
        except JetStreamError as error:
            return error.err_code != NO_MESSAGE  # it was purged, because what it told was erased
        return nanoseconds(found["message"]["time"]) != self._stored_at

    def _place(self, stream: StreamState, *, is_another: bool) -> None:
        """Find the place of the reader in the current stream, or raise the gap."""
        beginning = stream.first - 1
        known = self._created is not None
        behind = self._after is not None and self._after > stream.last
        changed = (self._created, self._epoch) != (stream.created, stream.epoch)
        if known and (changed or behind or is_another):
            what = "lost its end" if self._created == stream.created else "was recreated"
            self._gap(
                FeedRecreated(
                    f"the stream of changes {what}; it now ends at sequence {stream.last}",
                    resume=str(Cursor(stream.created, beginning, stream.epoch)),
                    last=stream.last,
                )
            )
            self._after, self._stored_at = beginning, 0
        elif self._after is not None:
            if self._after < beginning:
                self._truncated(self._after, stream)
                self._after, self._stored_at = beginning, 0
        elif isinstance(self._since, datetime):
            if stream.first > 1 and microseconds_from_time(self._since) * 1000 < stream.first_at:
                self._truncated(0, stream)
        else:
            at_start = self._since == "start"
            self._after, self._stored_at = (beginning, 0) if at_start else (stream.last, stream.last_at)
        self._created, self._epoch = stream.created, stream.epoch

    def _truncated(self, after: int, stream: StreamState) -> None:
        resume = str(Cursor(stream.created, stream.first - 1, stream.epoch))
        self._gap(FeedTruncated(after + 1, stream.first, resume))

    def _gap(self, error: FeedError, cause: Exception | None = None) -> None:
        if not self._skips:
            raise error from cause
        log.warning("the feed goes on over a gap: %s", error.detail)

    async def _verify(self, consumer: Consumer) -> None:
        """Check that retention has not overtaken the consumer while the server is ahead.

        A push consumer silently skips messages that were removed before they were sent. This shows as a jump of the
        sequence, below the stream's first sequence.
        """
        now = asyncio.get_running_loop().time()
        if now - self._verified_at < VERIFY_SECONDS:
            return
        self._verified_at = now
        received = consumer.delivery.settle()
        try:
            stream = await self._stream()
        except (NoAnswer, JetStreamError) as error:
            log.debug("the feed could not verify its place: %r", error)
            consumer.delivery.jumped = True
            return
        before, self._verified_up_to = self._verified_up_to, max(received, stream.first - 1)
        if stream.created == self._created and stream.first - 1 > before:
            self._truncated(before, stream)

    async def _stream(self) -> StreamState:
        info = await jetstream(self._connection, f"STREAM.INFO.{CHANGES}", None, self._options.attempt_seconds)
        stream = StreamState.of(info)
        if stream.missing > await self._purged(stream):
            # A worker recreates such a stream as soon as it detects the loss. Until then no reader may skip the hole.
            raise JetStreamError(503, 0, f"{stream.missing} messages of {CHANGES} are lost, and it is being recreated")
        return stream

    async def _purged(self, stream: StreamState) -> int:
        """Return how many messages were purged on purpose, if any are missing."""
        if not stream.missing:
            return 0
        wanted = {"last_by_subj": PURGED_SUBJECT}
        try:
            found = await jetstream(
                self._connection, f"STREAM.MSG.GET.KV_{PURGED}", wanted, self._options.attempt_seconds
            )
        except JetStreamError:
            return 0
        except NoAnswer:
            return stream.missing  # without the right to ask, a loss shows once a worker recreates the stream
        record = json.loads(base64.b64decode(found["message"]["data"]))
        return int(record["total"]) if nanoseconds(record["feed"]) == stream.created else 0

    async def _drop(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            await consumer.drop()


def _start_of(since: str | datetime) -> Literal["now", "start"] | Cursor | datetime:
    if isinstance(since, datetime):
        if since.tzinfo is None:
            raise InvalidRequest("since: a time needs its offset from UTC", field="since")
        return since.astimezone(UTC)
    if since == "now":
        return "now"
    return "start" if since == "start" else Cursor.parse(since)


def _not_opened(error: NoAnswer | JetStreamError) -> Unavailable:
    return Unavailable(
        f"the feed cannot be opened: {error}; `hivemem doctor` says what is missing",
        reason=error.reason if isinstance(error, NoAnswer) else "refused",
        retry_after_ms=1000,
    )
