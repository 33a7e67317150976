"""Live changes without history: each change as a plain message, at most once.

A change wakes its listener, who then reads the current state. The listener reads it again after a reconnect, because
changes may have been missed.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Final

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from hivemem_contracts.streams import LIVE_PREFIX
from hivemem_runtime.bus.connection import on_reconnect
from hivemem_runtime.bus.subscriptions import settle, subscribe

Changed = Callable[[str, bytes], None]
"""Given the subject of the change, as the feed has it, and its body."""

_FEED_PREFIX: Final = "hive.chg"


class LiveChanges:
    """Calls `changed` for each change below a subject of the feed, and `missed` after a time without a connection."""

    def __init__(self, subject: str, changed: Changed, missed: Callable[[], None]) -> None:
        assert subject.startswith(_FEED_PREFIX), "it is a subject of the feed"
        self._subject = LIVE_PREFIX + subject.removeprefix(_FEED_PREFIX)
        self._changed = changed
        self._missed = missed
        self._subscription: Subscription | None = None
        self._ignore: Callable[[], None] | None = None

    async def start(self, client: Client) -> None:
        """Subscribe. Changes announced after this returns are received."""
        self._subscription = await subscribe(client, self._subject, self._receive)
        self._ignore = on_reconnect(client, self._missed)
        await settle(client)

    async def stop(self) -> None:
        ignore, self._ignore = self._ignore, None
        subscription, self._subscription = self._subscription, None
        if ignore is not None:
            ignore()
        if subscription is not None:
            with suppress(nats.errors.Error):  # of a connection that is closed already
                await subscription.unsubscribe()

    async def _receive(self, message: Msg) -> None:
        self._changed(_FEED_PREFIX + message.subject.removeprefix(LIVE_PREFIX), message.data)
