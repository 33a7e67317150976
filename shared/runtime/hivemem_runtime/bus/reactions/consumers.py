"""Reactions: what a worker does when something changed, whoever changed it. FastStream consumers of the feed."""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, cast

import structlog
from faststream import AckPolicy
from faststream.nats import JStream, NatsBroker, PullSub
from nats.aio.client import Client
from nats.aio.msg import Msg

from hivemem_contracts.errors import Unavailable
from hivemem_contracts.streams import CHANGES
from hivemem_runtime.bus.connection import connect
from hivemem_runtime.bus.dead_letters import DeadLetters
from hivemem_runtime.bus.feed.fleet_key import fleet_key
from hivemem_runtime.bus.feed.pull import FeedContext
from hivemem_runtime.bus.feed.stream_keeper import StreamState
from hivemem_runtime.bus.jetstream import CONSUMER_NOT_FOUND, NANOSECONDS, JetStreamRefused, ask
from hivemem_runtime.bus.reactions.runner import Reacting, Reaction, Rely
from hivemem_runtime.clock import elapsed_seconds
from hivemem_runtime.loops import Loop

log = structlog.get_logger("hivemem.reactions")

WAIT_SECONDS: Final = 5.0
"""How long one request waits for the next change."""
ACK_WAIT_SECONDS: Final = 30.0
UPKEEP_SECONDS: Final = 2.0
SILENT_SECONDS: Final = 7.0
GRACE_SECONDS: Final = 10.0
DEFAULT_INBOX: Final = "_INBOX"
FEED: Final = "hivemem-feed"
"""The name in a consumer's metadata for the feed that it reads. A consumer of an earlier epoch may be ahead of reused
sequences, so it is made again."""


class _Broker(NatsBroker):
    """Connects the way everything else here does, for as long as it takes, and to no server that is too old."""

    def __init__(self, url: str, name: str, options: Mapping[str, Any]) -> None:
        super().__init__(
            url,
            # Handlers get the messages as they came; how they are understood is not FastStream's business.
            apply_types=False,
            graceful_timeout=GRACE_SECONDS,
            logger=logging.getLogger("hivemem.faststream"),
            log_level=logging.DEBUG,
        )
        self._url, self._name, self._options = url, name, options

    async def _connect(self) -> Client:
        client = await connect(self._url, self._name, **self._options)
        self.config.connect(client)
        self.config.connection_state.connect(client, FeedContext(client))
        return client


async def _as_it_came(message: Any) -> list[Msg]:
    return cast("list[Msg]", message.raw_message)


class Reactions:
    """The reactions of one worker. All workers of a service share the consumers: each change goes to one worker.

    A batch is in feed order. Two workers may handle batches at the same time, so a handler compares versions and skips
    the changes that it knows. `options` are passed to the connection.
    """

    def __init__(
        self, url: str, service: str, *, options: Mapping[str, Any] | None = None, rely: Rely | None = None
    ) -> None:
        """`rely` is awaited before a batch is handled: see `Announcer.rely`."""
        self._rely = rely
        self._service = service
        self._options = options or {}
        self._broker = _Broker(url, f"{service} reactions", self._options)
        self._reactions: list[Reaction] = []
        self._at_work: list[Reacting] = []
        self._subscribers: dict[str, Any] = {}
        self._lags: dict[str, int | None] = {}
        self._client: Client | None = None
        self._upkeep = Loop(f"{service}-reactions", self._keep_up)
        self._answered_at = 0.0

    def add(self, reaction: Reaction) -> None:
        """Before `start`."""
        if any(reaction.name == other.name for other in self._reactions):
            raise ValueError(f"reaction {reaction.name} is added twice")
        self._reactions.append(reaction)

    async def start(self) -> Client:
        """Connect and begin. Returns the connection; raises `Unavailable`, and what is running by then is stopped."""
        client = await self._broker.connect()
        try:
            dead = DeadLetters(client)
            key, feed = await fleet_key(client), await self._feed(client)
            for reaction in self._reactions:
                await self._declare(client, reaction, feed)
                wait = _ack_wait_seconds(reaction)
                reacting = Reacting(reaction, self._service, client, dead, key, ack_wait_seconds=wait, rely=self._rely)
                reacting.feed = feed
                self._subscribe(reacting)
            await self._broker.start()
        except BaseException:
            await self._broker.stop()
            raise
        self._client, self._answered_at = client, elapsed_seconds()
        self._upkeep.start()
        return client

    async def stop(self) -> None:
        """Finish the batches at hand, within the grace; what is not done then is given back."""
        await self._upkeep.stop()
        for reacting in self._at_work:
            reacting.stop()
        await self._broker.stop()

    def status(self) -> dict[str, Any]:
        """What each reaction did here, and what waits for it, as of a few seconds ago; None while that is unknown."""
        found: dict[str, Any] = {
            reacting.reaction.name: {
                "lag": self._lags.get(reacting.reaction.name),
                "handled": reacting.handled,
                "given_up": reacting.given_up,
                "failing": reacting.failing,
                "foreign": reacting.foreign,
            }
            for reacting in self._at_work
        }
        trouble = self._trouble()
        return found | {"trouble": trouble} if trouble else found

    def _trouble(self) -> str | None:
        if self._client is None:
            return None
        if not self._client.is_connected:
            return "its own connection to NATS is lost"
        ended = [
            name for name, subscriber in self._subscribers.items() if any(task.done() for task in subscriber.tasks)
        ]
        if ended:
            return f"{', '.join(ended)} no longer takes changes; restart the worker"
        silent = elapsed_seconds() - self._answered_at
        if silent > SILENT_SECONDS:
            return f"JetStream has not told for {silent:.0f} s what waits"
        return self._upkeep.trouble

    def _subscribe(self, reacting: Reacting) -> None:
        reaction = reacting.reaction
        # The library's pull subscriptions do not use the connection's own inbox prefix.
        prefix = str(self._options.get("inbox_prefix") or DEFAULT_INBOX)
        subscriber = self._broker.subscriber(
            reaction.filters[0],
            # The stream is declared in one place, and that is not here.
            stream=JStream(CHANGES, declare=False),
            durable=reaction.durable(self._service),
            pull_sub=PullSub(reaction.batch, timeout=WAIT_SECONDS, batch=True),
            inbox_prefix=f"{prefix}.".encode(),
            ack_policy=AckPolicy.MANUAL,
            decoder=_as_it_came,
            no_reply=True,
        )
        subscriber(reacting.react)
        self._subscribers[reaction.name] = subscriber
        self._at_work.append(reacting)

    async def _feed(self, client: Client) -> str:
        """Return which feed the stream holds now."""
        state = StreamState.of(await ask(client, f"STREAM.INFO.{CHANGES}"))
        return f"{state.created}/{state.epoch}"

    async def _declare(self, client: Client, reaction: Reaction, feed: str) -> None:
        durable = reaction.durable(self._service)
        if await self._is_outdated(client, durable, feed):
            log.warning("a reaction begins anew with the feed", reaction=reaction.name)
            await ask(client, f"CONSUMER.DELETE.{CHANGES}.{durable}")
        config = {
            "name": durable,
            "durable_name": durable,
            "filter_subjects": list(reaction.filters),
            "deliver_policy": "all",
            "ack_policy": "explicit",
            "ack_wait": int(_ack_wait_seconds(reaction) * NANOSECONDS),
            "max_ack_pending": reaction.out_at_once,
            "max_deliver": -1,
            "metadata": {FEED: feed},
        }
        await ask(
            client,
            f"CONSUMER.CREATE.{CHANGES}.{durable}",
            {"stream_name": CHANGES, "action": "", "config": config},
        )

    async def _is_outdated(self, client: Client, durable: str, feed: str) -> bool:
        try:
            info = await ask(client, f"CONSUMER.INFO.{CHANGES}.{durable}")
        except JetStreamRefused as error:
            if error.code != CONSUMER_NOT_FOUND:
                raise
            return False
        metadata: dict[str, str] = info["config"].get("metadata") or {}
        return metadata.get(FEED, feed) != feed

    async def _keep_up(self) -> None:
        """Learn how much waits, and declare consumers again that are gone, or that were made for an earlier feed."""
        client = self._client
        assert client is not None, "it was started"
        while not self._upkeep.stopping.is_set():
            with suppress(Unavailable, JetStreamRefused):
                feed, key = await self._feed(client), await fleet_key(client, self._at_work[0].key)
                for reacting in self._at_work:
                    reacting.key = key
                    await self._declare(client, reacting.reaction, feed)
                    reacting.feed = feed
            for reaction in self._reactions:
                self._lags[reaction.name] = await self._lag(client, reaction)
            with suppress(TimeoutError):
                async with asyncio.timeout(UPKEEP_SECONDS):
                    await self._upkeep.stopping.wait()

    async def _lag(self, client: Client, reaction: Reaction) -> int | None:
        try:
            info = await ask(client, f"CONSUMER.INFO.{CHANGES}.{reaction.durable(self._service)}")
        except (Unavailable, JetStreamRefused):
            return None
        self._answered_at = elapsed_seconds()
        return int(info["num_pending"]) + int(info["num_ack_pending"])


def _ack_wait_seconds(reaction: Reaction) -> float:
    return reaction.ack_wait_seconds or ACK_WAIT_SECONDS
