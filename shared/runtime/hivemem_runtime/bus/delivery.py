"""Durable messages as a handler gets them."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

import structlog
from nats.aio.msg import Msg

log = structlog.get_logger("hivemem.bus")

_ACK_PREFIX: Final = "$JS.ACK."
_PLAIN_ACK_TOKENS: Final = 9
_DOMAIN_TOKENS: Final = 2
_PLACE_TOKENS: Final = 5

ignored: Counter[str] = Counter()
"""Messages without the reply subject of a stream, counted by reader."""


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
    readable: bool = True
    """False where the publisher sent an invalid header block; `headers` is empty then."""


Handle = Callable[[Sequence[DurableMessage]], Awaitable[int]]
"""Handles messages in order and answers how many, from the front, are settled: done for good, or given up for good."""


def parse_delivery(message: Msg, reader: str) -> DurableMessage | None:
    """Read the place of a message from its reply subject: `$JS.ACK.[domain.account.]stream.consumer.…`. Messages with
    another reply subject give None and are counted in `ignored` for the `reader`."""
    place = _place(message.reply)
    if place is None:
        ignored[reader] += 1
        log.debug("message ignored: no stream delivered it", reader=reader, subject=message.subject)
        return None
    deliveries, sequence, delivery, stored_at, pending = place
    return DurableMessage(
        message.subject,
        {} if message.headers is None else message.headers,
        message.data,
        sequence,
        delivery,
        deliveries,
        stored_at,
        message.reply,
        pending,
    )


def _place(reply: str) -> list[int] | None:
    tokens = reply.split(".")
    first = 4 if len(tokens) == _PLAIN_ACK_TOKENS else 4 + _DOMAIN_TOKENS
    place = tokens[first : first + _PLACE_TOKENS]
    if not reply.startswith(_ACK_PREFIX) or len(place) < _PLACE_TOKENS:
        return None
    try:
        return [int(number) for number in place]
    except ValueError:
        return None
