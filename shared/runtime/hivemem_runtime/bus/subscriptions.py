"""Subscribing with types: the client library's own method leaves some of them open."""

from collections.abc import Awaitable, Callable

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import (
    DEFAULT_SUB_PENDING_BYTES_LIMIT,
    DEFAULT_SUB_PENDING_MSGS_LIMIT,
    Subscription,
)

Receive = Callable[[Msg], Awaitable[None]]


async def subscribe(
    client: Client, subject: str, receive: Receive | None = None, *, queue: str = "", unlimited: bool = False
) -> Subscription:
    """`receive` gets one message at a time, in order; without it they are asked for. Those who subscribe with the same
    `queue` share the messages.

    Past the library's limits for what waits, messages are dropped; `unlimited` is for where the sender sends no more
    than it was asked for.
    """
    return await client.subscribe(  # pyright: ignore[reportUnknownMemberType]  # an untyped Future among its parameters
        subject,
        queue,
        cb=receive,
        pending_msgs_limit=0 if unlimited else DEFAULT_SUB_PENDING_MSGS_LIMIT,
        pending_bytes_limit=0 if unlimited else DEFAULT_SUB_PENDING_BYTES_LIMIT,
    )
