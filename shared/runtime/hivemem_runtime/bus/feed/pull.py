"""Pulling from the feed for FastStream, in place of the client library's way.

That one raises errors which FastStream does not expect, and what was fetched by then is lost until its acknowledgement
is overdue; it asks again without a pause where nothing answers; and a batch that is not full waits out its time.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import nats.errors
import orjson
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.js import JetStreamContext
from nats.js.api import ConsumerConfig

from hivemem_contracts.identifiers import new_id
from hivemem_contracts.streams import CHANGES
from hivemem_runtime.bus.delivery import parse_delivery
from hivemem_runtime.bus.jetstream import API, NANOSECONDS, ask
from hivemem_runtime.bus.subscriptions import subscribe

ANSWER_SECONDS: Final = 2.0
"""How much later than it said the server may answer."""
HELD_BACK_SECONDS: Final = 0.1
"""The expiry of a request for messages that are available now. While all workers together have `max_ack_pending`
messages out, the server would neither fill nor end such a request."""
PAUSE_SECONDS: Final = 0.5
INACTIVE_SECONDS: Final = 10
NOTHING_NOW: Final = ("404", "408")
READER: Final = "feed"


class FeedPull(JetStreamContext.PullSubscription):
    """One durable consumer's messages, a batch at a time. Each request is answered in full before the next."""

    def __init__(self, client: Client, stream: str, consumer: str, prefix: bytes) -> None:
        self._client = client
        self._subject = f"{API}.CONSUMER.MSG.NEXT.{stream}.{consumer}"
        self._prefix = prefix.decode()
        self._inbox = ""
        self._subscription: Subscription | None = None
        self._came: deque[Msg] = deque()
        self._more = asyncio.Event()
        self._batch = 0

    async def fetch(self, batch: int = 1, timeout: float | None = 5, heartbeat: float | None = None) -> list[Msg]:  # noqa: ASYNC109  # the library's own signature
        """Return available messages, at most a batch. If there are none, wait for the next one, and return it with what
        arrived by then. Raises `TimeoutError` if none came.

        FastStream calls this until its batch is full. Every call after the first raises that error, so that FastStream
        hands over the messages at once.
        """
        self._batch = max(self._batch, batch)
        if batch < self._batch:
            raise nats.errors.TimeoutError
        found: list[Msg] = []
        try:
            at_once = await self._pull(found, batch, None)
            waited = not at_once and await self._pull(found, 1, timeout or ANSWER_SECONDS)
            newest = parse_delivery(found[-1], READER) if waited else None
            if newest is not None and newest.pending:
                await self._pull(found, batch - 1, None)
        except nats.errors.Error:
            await self._start_anew()
            await asyncio.sleep(PAUSE_SECONDS)
        if not found:
            raise nats.errors.TimeoutError
        return found

    async def unsubscribe(self) -> None:
        if self._subscription is not None:
            with suppress(nats.errors.Error):
                await self._subscription.unsubscribe()
            self._subscription = None

    async def _pull(self, found: list[Msg], count: int, wait_seconds: float | None) -> bool:
        """Add what comes to `found`; whether anything did. Raises an error of the client library if in doubt."""
        if count == 0:
            return False
        if self._subscription is None:
            await self._start_anew()
        seconds = HELD_BACK_SECONDS if wait_seconds is None else wait_seconds
        request = {"batch": count, "expires": int(seconds * NANOSECONDS), "no_wait": wait_seconds is None}
        await self._client.publish(self._subject, orjson.dumps(request), reply=self._inbox)
        for place in range(count):
            message = await self._next(seconds + ANSWER_SECONDS)
            if message.subject == self._inbox:
                if (message.headers or {}).get("Status") not in NOTHING_NOW:
                    raise nats.errors.NoRespondersError
                return place > 0
            found.append(message)
        return True

    async def _next(self, seconds: float) -> Msg:
        while not self._came:
            self._more.clear()
            try:
                async with asyncio.timeout(seconds):
                    await self._more.wait()
            except TimeoutError as error:
                raise nats.errors.TimeoutError from error
        return self._came.popleft()

    async def _start_anew(self) -> None:
        """A new inbox, so that no answer to an earlier request is taken for one to the next."""
        await self.unsubscribe()
        self._came.clear()
        self._inbox = f"{self._prefix}{self._client.new_inbox().rpartition('.')[2]}"
        self._subscription = await subscribe(self._client, self._inbox, self._receive, unlimited=True)

    async def _receive(self, message: Msg) -> None:
        # Stored messages arrive under their own subjects; only the server's statuses arrive under the inbox.
        if message.subject != self._inbox and parse_delivery(message, READER) is None:
            return
        self._came.append(message)
        self._more.set()


async def reader(client: Client, *, after: int, subjects: Sequence[str], headers_only: bool = False) -> FeedPull:
    """Read the feed once, behind a sequence; the server forgets the consumer soon after nobody asks any more."""
    name = f"reader-{new_id()}"
    config = {
        "name": name,
        "deliver_policy": "by_start_sequence",
        "opt_start_seq": after + 1,
        "filter_subjects": list(subjects),
        "ack_policy": "none",
        "headers_only": headers_only,
        "mem_storage": True,
        "num_replicas": 1,
        "inactive_threshold": INACTIVE_SECONDS * NANOSECONDS,
    }
    body = {"stream_name": CHANGES, "action": "create", "config": config}
    await ask(client, f"CONSUMER.CREATE.{CHANGES}.{name}", body)
    return FeedPull(client, CHANGES, name, b"_INBOX.")


class FeedContext(JetStreamContext):
    """Has FastStream pull in this way, from consumers that are there already."""

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._client = client

    async def pull_subscribe(
        self,
        subject: str,
        durable: str | None = None,
        stream: str | None = None,
        config: ConsumerConfig | None = None,
        pending_msgs_limit: int = 0,
        pending_bytes_limit: int = 0,
        inbox_prefix: bytes | None = None,
    ) -> FeedPull:
        assert durable, "a reaction has a name"
        assert stream, "a reaction has a stream"
        return FeedPull(self._client, stream, durable, inbox_prefix or b"_INBOX.")
