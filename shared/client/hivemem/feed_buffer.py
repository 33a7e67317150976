"""The messages that the server pushes for one feed, queued in order until they are read."""

import asyncio
import logging
from collections import deque
from dataclasses import dataclass
from typing import Final, NamedTuple

from nats.aio.msg import Msg

from hivemem_contracts.streams import SIGNATURE

log = logging.getLogger("hivemem")

BUFFERED_MESSAGES: Final = 65_536
BUFFERED_BYTES: Final = 64 * 1024 * 1024
"""The server stops at 32 MB without confirmation of flow control, so only very small changes reach these limits."""

ACKNOWLEDGEMENT: Final = "$JS.ACK."
FLOW_CONTROL: Final = "$JS.FC."
"""The reply subjects of a stream's messages. Others get no answer."""


class Pushed(NamedTuple):
    """One message of the stream. A tuple, because there is one for every change."""

    sequence: int
    subject: str
    data: bytes
    stored_at: int
    """When the stream took it, in nanoseconds since 1970."""
    signed: bool
    """Whether it says to be from a worker. Acknowledgements that were sent to the feed do not."""


@dataclass(frozen=True, slots=True)
class FlowControl:
    """A flow control request: the server continues once `subject` is answered, after everything before it was read."""

    subject: str


class Delivery:
    """Receives the messages of one consumer. A message out of sequence is refused, and sets `lost`."""

    def __init__(self, after: int, inbox: str) -> None:
        self._inbox = inbox
        self.received = after
        """The stream sequence of the last received message."""
        self.jumped = False
        """Whether sequences were skipped since `settle`: filtered out, erased, or removed before they were sent."""
        self.lost = False
        self.heard = asyncio.get_running_loop().time()
        self._items: deque[Pushed | FlowControl] = deque()
        self._bytes = 0
        self._count = 0
        self._lagging = False
        self._waiter: asyncio.Future[None] | None = None

    def take(self, message: Msg) -> None:
        """Handle one message of the subscription, in the read loop."""
        self.heard = asyncio.get_running_loop().time()
        # Stored messages arrive under their own subjects; only the server's statuses arrive under the inbox.
        if message.subject == self._inbox:
            self._control(message, message.headers or {})
        elif not self.lost:
            self._push(message)
        self.wake()

    def _push(self, message: Msg) -> None:
        tokens = message.reply.split(".")
        # With a domain the reply subject has two tokens more in front.
        start = 5 if len(tokens) == 9 else 7
        if not message.reply.startswith(ACKNOWLEDGEMENT) or len(tokens) < start + 4:
            log.debug("message on %s ignored: no stream delivered it", message.subject)
            return
        count = int(tokens[start + 1])
        full = len(self._items) >= BUFFERED_MESSAGES or self._bytes >= BUFFERED_BYTES
        if count != self._count + 1 or full:
            self.lost = True
            return
        sequence = int(tokens[start])
        if sequence != self.received + 1:
            self.jumped = True
        self._count = count
        self.received = sequence
        self._lagging = tokens[start + 3] != "0"
        self._bytes += len(message.data)
        signed = SIGNATURE in (message.headers or {})
        self._items.append(Pushed(self.received, message.subject, message.data, int(tokens[start + 2]), signed))

    def _control(self, message: Msg, headers: dict[str, str]) -> None:
        if headers.get("Status") != "100":
            return
        for subject in (message.reply, headers.get("Nats-Consumer-Stalled", "")):
            if subject.startswith(FLOW_CONTROL):
                self._items.append(FlowControl(subject))
        if message.reply:
            return
        if int(headers.get("Nats-Last-Consumer", "0")) > self._count:
            self.lost = True

    @property
    def doubtful(self) -> bool:
        """Return whether messages may have been removed before they were sent: the server is behind, and skipped
        some."""
        return self.jumped and self._lagging

    def settle(self) -> int:
        """Forget the skipped sequences, and return the sequence up to which they were checked."""
        self.jumped = False
        return self.received

    def next(self) -> Pushed | FlowControl | None:
        """Return the oldest unread item."""
        if not self._items:
            return None
        item = self._items.popleft()
        if isinstance(item, Pushed):
            self._bytes -= len(item.data)
        return item

    def wake(self) -> None:
        """Wake the waiting reader."""
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    async def wait(self, timeout_seconds: float) -> None:
        """Wait until an item arrives, or the time is over."""
        if self._items or self.lost:
            return
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        timer = loop.call_later(timeout_seconds, self.wake)
        try:
            await self._waiter
        finally:
            timer.cancel()
            self._waiter = None
