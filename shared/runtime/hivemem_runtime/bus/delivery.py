"""Durable messages as a handler gets them."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

from nats.aio.msg import Msg

_PLAIN_ACK_TOKENS: Final = 9


class DurableMessage(NamedTuple):
    """A stored message. `stored_at` is nanoseconds since 1970; with `sequence` it names the message for good."""

    subject: str
    headers: dict[str, str]
    data: bytes
    sequence: int
    delivery: int
    """The consumer's own count: it grows by one from each message that it sends to the next."""
    deliveries: int
    stored_at: int
    ack: str
    pending: int = 0
    """How many more of the consumer's messages the server had, that it had not sent to anybody."""
    fatal: bool = False
    """Whether workers have died of it again and again: it must be given up, and not begun."""


Handle = Callable[[Sequence[DurableMessage]], Awaitable[int]]
"""Handles messages in order and answers how many, from the front, are settled: done for good, or given up for good."""


def parse_delivery(message: Msg) -> DurableMessage:
    """The acknowledgement subject tells where the message stands: `$JS.ACK.[domain.account.]stream.consumer.…`."""
    tokens = message.reply.split(".")
    first = 4 if len(tokens) == _PLAIN_ACK_TOKENS else 6
    deliveries, sequence, delivery, stored_at, pending = tokens[first : first + 5]
    return DurableMessage(
        message.subject,
        message.headers or {},
        message.data,
        int(sequence),
        int(delivery),
        int(deliveries),
        int(stored_at),
        message.reply,
        int(pending),
    )
