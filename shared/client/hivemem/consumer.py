"""One ordered push consumer of the stream of changes, for as long as the server and the connection keep it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from hivemem.connection import Connection
from hivemem.feed_buffer import Delivery
from hivemem.jetstream import jetstream
from hivemem_contracts.identifiers import new_id
from hivemem_contracts.streams import CHANGES

HEARTBEAT_SECONDS: Final = 1
INACTIVE_SECONDS: Final = 10
"""The server deletes a consumer without listeners after this time."""

_NANO: Final = 1_000_000_000


class Consumer:
    """The consumer on the server, with its subscription here."""

    def __init__(self, connection: Connection, delivery: Delivery, release: Callable[[], Awaitable[None]]) -> None:
        self.delivery = delivery
        self.name = f"feed-{new_id()}"
        self._connection = connection
        self._epoch = connection.epoch
        self._release = release
        self._unwatch = connection.watch(delivery.wake)

    def is_lost(self, silence_seconds: float) -> bool:
        """Whether the consumer is lost: a gap, another connection, or no heartbeat."""
        silent = asyncio.get_running_loop().time() - self.delivery.heard > silence_seconds
        return self.delivery.lost or silent or self._epoch != self._connection.epoch or self._connection.closed

    async def drop(self) -> None:
        """Delete the consumer here, and on the server if it is reachable."""
        self._unwatch()
        self.delivery.wake()
        await self._release()
        if self._connection.connected:
            await self._connection.publish(f"$JS.API.CONSUMER.DELETE.{CHANGES}.{self.name}")

    def abandon(self) -> None:
        """Start `drop` from code that cannot await."""
        self._connection.in_background(self.drop)


async def make_consumer(
    connection: Connection, filters: tuple[str, ...], start: dict[str, Any], after: int, timeout_seconds: float
) -> Consumer:
    """Create a consumer. Raises `NoAnswer` or `JetStreamError`, and then leaves nothing behind."""
    inbox = connection.new_inbox()
    delivery = Delivery(after, inbox)
    consumer = Consumer(connection, delivery, await connection.subscribe(inbox, delivery.take))
    configuration: dict[str, Any] = {
        "name": consumer.name,
        "deliver_subject": inbox,
        "ack_policy": "none",
        "max_deliver": 1,
        "replay_policy": "instant",
        "flow_control": True,
        "idle_heartbeat": HEARTBEAT_SECONDS * _NANO,
        "inactive_threshold": INACTIVE_SECONDS * _NANO,
        "mem_storage": True,
        "num_replicas": 1,
        "filter_subjects": list(filters),
        **start,
    }
    body = {"stream_name": CHANGES, "config": configuration}
    try:
        await jetstream(connection, f"CONSUMER.CREATE.{CHANGES}.{consumer.name}", body, timeout_seconds)
    except BaseException:
        await consumer.drop()
        raise
    return consumer
