"""Subscribing with types: the client library's own method leaves some of them open."""

import asyncio
from collections.abc import Awaitable, Callable

import structlog
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import (
    DEFAULT_SUB_PENDING_BYTES_LIMIT,
    DEFAULT_SUB_PENDING_MSGS_LIMIT,
    Subscription,
)

log = structlog.get_logger("hivemem.bus")

Receive = Callable[[Msg], Awaitable[None]]


async def subscribe(
    client: Client, subject: str, receive: Receive | None = None, *, queue: str = "", unlimited: bool = False
) -> Subscription:
    """`receive` gets one message at a time, in order; without it they are asked for. If `receive` raises, the error is
    logged and the next message follows. Those who subscribe with the same `queue` share the messages.

    Past the library's limits for what waits, messages are dropped; `unlimited` is for where the sender sends no more
    than it was asked for.
    """
    return await client.subscribe(  # pyright: ignore[reportUnknownMemberType]  # an untyped Future among its parameters
        subject,
        queue,
        cb=None if receive is None else _guarded(receive),
        pending_msgs_limit=0 if unlimited else DEFAULT_SUB_PENDING_MSGS_LIMIT,
        pending_bytes_limit=0 if unlimited else DEFAULT_SUB_PENDING_BYTES_LIMIT,
    )


def _guarded(receive: Receive) -> Receive:
    """The library ends a subscription if its handler raises any `CancelledError`."""

    async def guarded(message: Msg) -> None:
        try:
            await receive(message)
        except (Exception, asyncio.CancelledError) as error:
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise
            log.exception("a message could not be handled", subject=message.subject)

    return guarded
