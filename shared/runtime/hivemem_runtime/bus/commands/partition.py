"""One partition of a service: its consumer, pinned to one worker at a time, which handles its messages in order."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

import nats.errors
import structlog
from nats.aio.client import Client

from hivemem_contracts.errors import Unavailable
from hivemem_contracts.streams import INGEST
from hivemem_runtime.backoff import backoff_seconds
from hivemem_runtime.bus.alone import alone_lock
from hivemem_runtime.bus.commands.crash_counts import CrashCounts
from hivemem_runtime.bus.commands.pinned_consumer import GROUP, PinnedSession, PullSettings
from hivemem_runtime.bus.commands.progress import Progress, pins
from hivemem_runtime.bus.delivery import DurableMessage, Handle
from hivemem_runtime.bus.jetstream import NANOSECONDS, JetStreamRefused, ask
from hivemem_runtime.bus.wire import plain_frame, send
from hivemem_runtime.clock import elapsed_seconds

log = structlog.get_logger("hivemem.bus")

ACK: Final = b"+ACK"
UNDER_WAY_BATCHES: Final = 4
"""One being handled, two waiting, one on the wire."""
ABANDONED_PINS: Final = 2
"""Lifetimes of a pin for which messages wait without one before any worker takes them."""
BACKOFF_SECONDS: Final = 0.1
BACKOFF_MAXIMUM_SECONDS: Final = 5.0
STATUS_TIMEOUT_SECONDS: Final = 2

Failures = (Unavailable, JetStreamRefused, nats.errors.Error, OSError)


class Partition:
    """One partition of a service, as one worker sees it."""

    def __init__(
        self,
        client: Client,
        service: str,
        number: int,
        *,
        mine: Callable[[], bool],
        handle: Handle,
        settings: PullSettings,
        crashes: CrashCounts,
    ) -> None:
        self.number = number
        self.mine = mine
        self.consumer = f"{service}-p{number}"
        self.settled = 0
        self.failures = 0
        """In a row, without a message settled between them."""
        self.progress = Progress()
        self.pinned = False
        """The server gives the pin away together with a message: an idle partition may have nobody's."""
        self._client = client
        self._service = service
        self._address = f"{INGEST}.{self.consumer}"
        self._handle = handle
        self._settings = settings
        self._crashes = crashes
        self._adopted = False
        """Whether it is handled here though it is another's, who does not come for it."""
        self._declared = False
        self._stopping = False
        self._pin: str | None = None
        self._doubtful = False
        """Whether the pin that we had may be another's by now."""
        self._valid_until = 0.0
        self._woken = asyncio.Event()

    def wake(self) -> None:
        self._woken.set()

    def stop(self) -> None:
        """Finish what is being handled, and no more; `run` returns then."""
        self._stopping = True
        self.wake()

    async def run(self) -> None:
        try:
            while not self._stopping:
                if not self._wanted():
                    await self._release()
                    await self._pause(self._settings.pin_seconds)
                    continue
                try:
                    await self._own()
                except Failures as error:
                    log.warning("partition interrupted", consumer=self.consumer, error=str(error))
                    self._forget_pin()
                    self._declared = False
                    self.failures += 1
                    await self._back_off()
                except Exception:
                    log.exception("partition failed", consumer=self.consumer)
                    self._forget_pin()
                    self.failures += 1
                    await self._back_off()
        finally:
            await self._release()

    async def look(self) -> None:
        """Note the lag and the pin, and take over a partition that nobody comes for."""
        try:
            info = await ask(self._client, f"CONSUMER.INFO.{self._address}", timeout_seconds=STATUS_TIMEOUT_SECONDS)
        except Failures:
            self.progress.lag = None
            return
        self.progress.note(info)
        if not self._wanted() and self.progress.abandoned_seconds > ABANDONED_PINS * self._settings.pin_seconds:
            log.info("partition taken over: its owner does not come for it", consumer=self.consumer)
            self._adopted = True
            self.wake()

    async def _own(self) -> None:
        """Obtain the pin if need be, and handle messages for as long as it lasts."""
        if not self._declared:
            await self.declare()
        if self._doubtful and not await self._still_pinned():
            self._forget_pin()
        if self._pin is None and not await self._obtain():
            return
        self._doubtful = False
        # Whatever an owner before had got: everything that is not acknowledged comes again, in order.
        await ask(self._client, f"CONSUMER.RESET.{self._address}")
        self.pinned = True
        await self._crashes.begin()
        try:
            settled_all = await self._consume()
        finally:
            self.pinned = False
        if not settled_all:
            await self._back_off()

    async def declare(self) -> None:
        await ask(
            self._client,
            f"CONSUMER.CREATE.{self._address}",
            {
                "stream_name": INGEST,
                "action": "",
                "config": {
                    "name": self.consumer,
                    "durable_name": self.consumer,
                    "filter_subject": f"hive.in.{self.number}.*.*.{self._service}.*.*",
                    "deliver_policy": "all",
                    "ack_policy": "explicit",
                    "ack_wait": int(self._settings.ack_wait_seconds * NANOSECONDS),
                    "max_ack_pending": UNDER_WAY_BATCHES * self._settings.batch,
                    "max_deliver": -1,
                    "priority_policy": "pinned_client",
                    "priority_groups": [GROUP],
                    "priority_timeout": int(self._settings.pin_seconds * NANOSECONDS),
                },
            },
        )
        self._declared = True

    async def _still_pinned(self) -> bool:
        if self._pin is None:
            return False
        info = await ask(self._client, f"CONSUMER.INFO.{self._address}")
        return self._pin in pins(info)

    async def _obtain(self) -> bool:
        """Wait as the next in line until the pin comes, or until somebody else should have it."""
        session = PinnedSession(self._client, self._address, None, self._settings, self.wake)
        look_again_at = elapsed_seconds() + self._settings.pin_seconds
        try:
            await session.open()
            while session.lost is None and self._wanted():
                await self._pause(self._settings.heartbeat_seconds)
                await session.take()
                if elapsed_seconds() >= look_again_at:
                    await self._offer_abandoned(session)
                    look_again_at = elapsed_seconds() + self._settings.pin_seconds
        finally:
            await session.close()
        self._declared = not session.missing
        if session.pin is not None:
            self._pin, self._valid_until = session.pin, session.valid_until or 0.0
            return True
        if session.missing:
            await self._back_off()
        return False

    async def _offer_abandoned(self, session: PinnedSession) -> None:
        """The pin comes only with a message, and what a dead owner had got would not come again before its wait is
        over. An owner that has its pin by the time of the reset notices the gap, and starts anew."""
        info = await ask(self._client, f"CONSUMER.INFO.{self._address}")
        if pins(info):
            self._adopted = self._adopted and session.pin is not None
        elif int(info["num_ack_pending"]):
            await ask(self._client, f"CONSUMER.RESET.{self._address}")

    async def _consume(self) -> bool:
        """Handle messages until the pin is gone or unwanted; False if the handler could not settle one."""
        session = PinnedSession(self._client, self._address, self._pin, self._settings, self.wake)
        taken_at = elapsed_seconds()
        try:
            await session.open()
            while self._wanted():
                messages = await session.take(1 if self._crashes.one_by_one else self._settings.batch)
                if session.lost is not None:
                    log.info("partition session ended", consumer=self.consumer, reason=session.lost)
                    self._pin, self._doubtful = session.pin, True
                    self._declared = not session.missing
                    break
                self._valid_until = session.valid_until or self._valid_until
                if not messages:
                    if elapsed_seconds() - taken_at > self._settings.pin_seconds:
                        self._adopted = False
                    await self._crashes.idle()
                    await self._pause(self._settings.heartbeat_seconds)
                    continue
                taken_at = elapsed_seconds()
                if not await self._settle(messages):
                    return False
            return True
        finally:
            await session.close()

    async def _settle(self, messages: list[DurableMessage]) -> bool:
        settled = await (self._settle_alone(messages[0]) if self._crashes.one_by_one else self._settle_batch(messages))
        if settled:
            self.failures = 0
            self.settled += settled
        # Not confirmed: a lost acknowledgement has the message sent again, and its id makes that harmless.
        if settled:
            await send(self._client, [plain_frame(message.ack, ACK) for message in messages[:settled]])
        if settled < len(messages):
            self.failures += 1
            await self._crashes.end()
        else:
            await self._crashes.handled(settled)
        return settled == len(messages)

    async def _settle_batch(self, messages: Sequence[DurableMessage]) -> int:
        async with alone_lock().together():
            return await self._try(messages)

    async def _settle_alone(self, message: DurableMessage) -> int:
        """Nothing else of this process runs beside it, so that a death is its doing."""
        try:
            async with alone_lock().alone(self._settings.pin_seconds):
                if elapsed_seconds() >= self._valid_until:
                    return 0
                fatal = await self._crashes.begin_alone(message)
                settled = await self._try([message._replace(fatal=fatal)])
        except TimeoutError:
            return 0
        return settled

    async def _try(self, messages: Sequence[DurableMessage]) -> int:
        try:
            return await self._handle(messages)
        except Exception:
            log.exception("the handler of a partition failed", consumer=self.consumer)
            return 0

    def _wanted(self) -> bool:
        return not self._stopping and (self._adopted or self.mine())

    def _forget_pin(self) -> None:
        self._pin = None
        self._doubtful = False
        self._valid_until = 0.0

    async def _release(self) -> None:
        """Let the next one in at once, instead of after the pin's lifetime."""
        await self._crashes.end()
        pin, valid_until = self._pin, self._valid_until
        self._forget_pin()
        if pin is None or elapsed_seconds() >= valid_until:
            return
        with suppress(*Failures):
            # Settled messages are acknowledged before the next owner begins with the first unsettled one.
            await self._client.flush(timeout=STATUS_TIMEOUT_SECONDS)
            await ask(
                self._client,
                f"CONSUMER.UNPIN.{self._address}",
                {"group": GROUP},
                timeout_seconds=STATUS_TIMEOUT_SECONDS,
            )

    async def _back_off(self) -> None:
        until = elapsed_seconds() + backoff_seconds(self.failures + 1, BACKOFF_SECONDS, BACKOFF_MAXIMUM_SECONDS)
        while not self._stopping and (left := until - elapsed_seconds()) > 0:
            await self._pause(left)

    async def _pause(self, seconds: float) -> None:
        """Until something happened, or the time is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        self._woken.clear()
