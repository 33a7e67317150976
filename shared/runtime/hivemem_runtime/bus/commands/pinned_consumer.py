"""Pulling from a pinned consumer: one client at a time gets messages, and notices when it is not the one any more.

The server writes the pin at the end of a message's header block, which may hold any bytes of its publisher.
"""

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import nats.errors
import orjson
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from hivemem_contracts.frames import Headers
from hivemem_runtime.bus.delivery import DurableMessage, parse_delivery
from hivemem_runtime.bus.jetstream import API, NANOSECONDS
from hivemem_runtime.bus.subscriptions import subscribe
from hivemem_runtime.clock import elapsed_seconds

GROUP: Final = "workers"
READER: Final = "commands"
_PIN: Final = b"Nats-Pin-Id: "
_LINE: Final = b"\r\n"
_BLANK: Final = b"\r\n\r\n"
_VERSION: Final = b"NATS/1.0\r\n"
SAFE_SHARE: Final = 0.9
"""Of the pin's lifetime: what is not begun by then is left to the next owner."""
PULL_BYTES: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class PullSettings:
    """`pin_seconds`: how long a silent owner keeps its pin. `batch`: the most messages handled at once."""

    pin_seconds: float = 3.0
    batch: int = 256
    ack_wait_seconds: float = 60.0

    @property
    def buffer(self) -> int:
        """Messages that may wait behind the batch that is being handled."""
        return 2 * self.batch

    @property
    def expires_seconds(self) -> float:
        return self.pin_seconds / 2

    @property
    def heartbeat_seconds(self) -> float:
        return self.pin_seconds / 4

    @property
    def silence_seconds(self) -> float:
        return 2.5 * self.heartbeat_seconds

    @property
    def safe_seconds(self) -> float:
        return SAFE_SHARE * self.pin_seconds


class PinnedSession:
    """One inbox, and what came to it in an unbroken order. In doubt it is closed: what the server still sends is lost.

    Without a pin it asks for one message, so that nothing else is under way when the pin comes with it. With a pin it
    asks for the next batch as soon as the last one has arrived, while that is still being handled; each request
    renews the pin.
    """

    def __init__(
        self, client: Client, consumer: str, pin: str | None, settings: PullSettings, wake: Callable[[], None]
    ) -> None:
        self.lost: str | None = None
        self.missing = False
        """Whether the consumer, or the whole stream, is not there."""
        self.pin = pin
        self.valid_until: float | None = None
        """Until when the pin is ours for sure; None before the server answered for the first time."""
        self._client = client
        self._subject = f"{API}.CONSUMER.MSG.NEXT.{consumer}"
        self._settings = settings
        self._wake = wake
        self._inbox = client.new_inbox()
        self._subscription: Subscription | None = None
        self._waiting: deque[DurableMessage] = deque()
        self._asked = 0
        self._asked_at = self._heard_at = elapsed_seconds()
        self._last_sequence = 0
        self._last_delivery = 0

    def __len__(self) -> int:
        return len(self._waiting)

    async def open(self) -> None:
        # What may be under way is bounded by the requests.
        self._subscription = await subscribe(self._client, self._inbox, self._receive, unlimited=True)
        await self._pull()

    async def close(self) -> None:
        self._waiting.clear()
        if self._subscription is not None:
            with suppress(nats.errors.Error):
                await self._subscription.unsubscribe()
            self._subscription = None

    async def take(self, limit: int = 1) -> list[DurableMessage]:
        """The next messages in order, at most `limit`; none once the pin may be gone."""
        at = elapsed_seconds()
        if self.lost is None:
            if self.valid_until is not None and at >= self.valid_until:
                self.lost = "the pin may have expired"
            elif self._asked and not self._waiting and at - self._heard_at > self._settings.silence_seconds:
                self.lost = "the server is silent"
        if self.lost is not None:
            return []
        count = min(len(self._waiting), limit)
        taken = [self._waiting.popleft() for _ in range(count)]
        await self._pull_if_room()
        return taken

    async def _pull_if_room(self) -> None:
        room = self._settings.buffer - len(self._waiting)
        if self._asked == 0 and room >= self._settings.batch and self.lost is None and self._subscription is not None:
            await self._pull()

    async def _pull(self) -> None:
        settings = self._settings
        request: dict[str, Any] = {
            "batch": settings.batch if self.pin else 1,
            "expires": int(settings.expires_seconds * NANOSECONDS),
            "idle_heartbeat": int(settings.heartbeat_seconds * NANOSECONDS),
            "group": GROUP,
        }
        if self.pin:
            request["id"] = self.pin
            # Never less than any one message can have, or that one could never be delivered.
            request["max_bytes"] = max(PULL_BYTES, 2 * self._client.max_payload)
        self._asked = request["batch"]
        self._asked_at = self._heard_at = elapsed_seconds()
        await self._client.publish(self._subject, orjson.dumps(request), reply=self._inbox)

    async def _receive(self, message: Msg) -> None:
        if self.lost is not None:
            return
        if message.subject == self._inbox:
            self._receive_status(message.headers or {})
        else:
            self._receive_message(message)
        await self._pull_if_room()

    def _receive_message(self, message: Msg) -> None:
        parsed = parse_delivery(message, READER)
        if parsed is None:
            return
        self._renewed()
        pin, delivered = _separate_pin(parsed)
        if self.pin is None:
            self.pin = pin
            self._asked = 0
            self.lost = "has a pin now, and starts anew with it"
            self._wake()
            return
        # Not the next one: something was lost on the way, or is sent for the second time.
        gap = delivered.delivery != self._last_delivery + 1 or delivered.sequence <= self._last_sequence
        if gap or pin != self.pin:
            self._lose("a gap in the deliveries" if gap else "the pin is another one")
            return
        self._last_delivery, self._last_sequence = delivered.delivery, delivered.sequence
        self._asked -= 1
        self._waiting.append(delivered)
        if len(self._waiting) == 1:
            self._wake()

    def _receive_status(self, headers: dict[str, str]) -> None:
        status, description = headers.get("Status", ""), headers.get("Description", "")
        if status == "100":
            self._renewed()
        elif status in ("404", "408") or (status == "409" and "MaxBytes" in description):
            self._renewed()
            self._asked = 0
        elif status == "409" and description.startswith("Batch Completed"):
            # Said where a request has a limit of bytes too; the count has told, and the next request is under way.
            return
        else:
            if status == "423":
                self.pin = None
            self.missing = status in ("409", "503")
            self._lose(f"status {status} {description.strip()}")

    def _renewed(self) -> None:
        """The server answers the last request, so the pin was renewed no earlier than that was sent."""
        self._heard_at = elapsed_seconds()
        self.valid_until = self._asked_at + self._settings.safe_seconds

    def _lose(self, reason: str) -> None:
        self.lost = reason
        self._waiting.clear()
        self._wake()


def _separate_pin(message: DurableMessage) -> tuple[str | None, DurableMessage]:
    """Return the pin and the message, which is marked and loses its headers if its publisher's block is invalid.

    The server replaces the last two bytes of that block by the line of the pin and a blank line. The pin can therefore
    be read from the end, whatever the block holds.
    """
    block = message.headers.block if isinstance(message.headers, Headers) else b""
    published, found, pin = block.rpartition(_PIN)
    if not found or not pin.endswith(_BLANK):
        return None, message
    if not published.startswith(_VERSION) or not published.endswith(_LINE) or _BLANK in published:
        message = message._replace(headers={}, readable=False)
    return pin.removesuffix(_BLANK).decode("ascii", "replace"), message
