"""Subscribing with types: the client library's own method leaves some of them open."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, cast

import nats.errors
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
    """Subscribe. `receive` gets one message at a time, in order; without it the caller pulls messages from the result.
    An error of `receive` is logged, and the next message follows. Subscribers with the same `queue` share the messages.

    Messages past the library's limit for waiting ones are dropped. `unlimited` lifts the limit, for senders that send
    only what was requested.
    """
    return await client.subscribe(  # pyright: ignore[reportUnknownMemberType]  # an untyped Future among its parameters
        subject,
        queue,
        cb=None if receive is None else _guarded(receive),
        pending_msgs_limit=0 if unlimited else DEFAULT_SUB_PENDING_MSGS_LIMIT,
        pending_bytes_limit=0 if unlimited else DEFAULT_SUB_PENDING_BYTES_LIMIT,
    )


async def settle(client: Client) -> None:
    """Return once the server has every subscription of the client. Raises `nats.errors.Error` where it does not answer.

    The client's own `flush` sends its PING ahead of the client's buffer. The buffer is sent by the time of the first
    PONG, so the second round trip follows it."""
    await client.flush()
    await client.flush()


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


class _Direct:
    """Answers to the two methods that the client library calls on the future of a subscription."""

    def __init__(self, take: Callable[[Msg], None]) -> None:
        self._take = take

    def cancelled(self) -> bool:
        return False

    def set_result(self, message: Msg) -> None:
        try:
            self._take(message)
        except Exception:  # an error here would end the read loop
            log.exception("a message could not be taken", subject=message.subject)


async def subscribe_direct(
    client: Client, subject: str, take: Callable[[Msg], None], *, queue: str = ""
) -> Subscription:
    """`take` gets each message as it is read from the connection, so none waits and none is dropped: it must be quick,
    and bound by itself what it keeps."""
    direct = cast("asyncio.Future[Msg]", _Direct(take))
    return await client.subscribe(subject, queue, future=direct)  # pyright: ignore[reportUnknownMemberType]  # untyped Future


async def drain(subscription: Subscription) -> None:
    """Take nothing more, but what the server has handed over already; not of a connection that is closed."""
    drained: Any = subscription  # the library leaves the types of draining open
    with suppress(nats.errors.Error):
        await drained.drain()
