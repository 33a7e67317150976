"""Durable commands in order, by elastic workers: each partition of a service has one consumer, pinned to one worker."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final

import nats.errors
import structlog
from nats.aio.client import Client

from hivemem_contracts.errors import Unavailable
from hivemem_contracts.streams import INGEST
from hivemem_runtime.bus.clock import now
from hivemem_runtime.bus.delivery import DurableMessage, Handle
from hivemem_runtime.bus.jetstream import NANOSECONDS, JetStreamRefused, ask
from hivemem_runtime.bus.members import Members
from hivemem_runtime.bus.pinned import GROUP, PullSettings, Session

log = structlog.get_logger("hivemem.bus")

ACK: Final = b"+ACK"
UNDER_WAY_BATCHES: Final = 4
"""One being handled, two waiting, one on the wire."""
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
    ) -> None:
        self.number = number
        self.mine = mine
        self.consumer = f"{service}-p{number}"
        self.settled = 0
        self.failures = 0
        """In a row, without a message settled between them."""
        self.pinned = False
        """The server gives the pin away together with a message: an idle partition may have nobody's."""
        self._client = client
        self._service = service
        self._address = f"{INGEST}.{self.consumer}"
        self._handle = handle
        self._settings = settings
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
                if not self.mine():
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

    async def lag(self) -> int | None:
        """Messages that wait in the stream or are being handled; None if the server does not say."""
        try:
            info = await ask(self._client, f"CONSUMER.INFO.{self._address}", timeout_seconds=STATUS_TIMEOUT_SECONDS)
        except Failures:
            return None
        return int(info["num_pending"]) + int(info["num_ack_pending"])

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
        return self._pin in _pins(info)

    async def _obtain(self) -> bool:
        """Wait as the next in line until the pin comes, or until somebody else should have it."""
        session = Session(self._client, self._address, None, self._settings, self.wake)
        look_again_at = now() + self._settings.pin_seconds
        try:
            await session.open()
            while session.lost is None and self._wanted():
                await self._pause(self._settings.heartbeat_seconds)
                await session.take()
                if now() >= look_again_at:
                    await self._offer_abandoned()
                    look_again_at = now() + self._settings.pin_seconds
        finally:
            await session.close()
        self._declared = not session.missing
        if session.pin is not None:
            self._pin, self._valid_until = session.pin, session.valid_until or 0.0
            return True
        if session.missing:
            await self._back_off()
        return False

    async def _offer_abandoned(self) -> None:
        """The pin comes only with a message, and what a dead owner had got would not come again before its wait is
        over. An owner that has its pin by the time of the reset notices the gap, and starts anew."""
        info = await ask(self._client, f"CONSUMER.INFO.{self._address}")
        if int(info["num_ack_pending"]) and not _pins(info):
            await ask(self._client, f"CONSUMER.RESET.{self._address}")

    async def _consume(self) -> bool:
        """Handle messages until the pin is gone or unwanted; False if the handler could not settle one."""
        session = Session(self._client, self._address, self._pin, self._settings, self.wake)
        try:
            await session.open()
            while self._wanted():
                messages = await session.take()
                if session.lost is not None:
                    log.info("partition session ended", consumer=self.consumer, reason=session.lost)
                    self._pin, self._doubtful = session.pin, True
                    self._declared = not session.missing
                    break
                self._valid_until = session.valid_until or self._valid_until
                if not messages:
                    await self._pause(self._settings.heartbeat_seconds)
                elif not await self._settle(messages):
                    return False
            return True
        finally:
            await session.close()

    async def _settle(self, messages: list[DurableMessage]) -> bool:
        try:
            settled = await self._handle(messages)
        except Exception:
            log.exception("the handler of a partition failed", consumer=self.consumer)
            settled = 0
        if settled:
            self.failures = 0
            self.settled += settled
        # Not confirmed: a lost acknowledgement has the message sent again, and its id makes that harmless.
        for message in messages[:settled]:
            await self._client.publish(message.ack, ACK)
        if settled < len(messages):
            self.failures += 1
        return settled == len(messages)

    def _wanted(self) -> bool:
        return not self._stopping and self.mine()

    def _forget_pin(self) -> None:
        self._pin = None
        self._doubtful = False
        self._valid_until = 0.0

    async def _release(self) -> None:
        """Let the next one in at once, instead of after the pin's lifetime."""
        pin, valid_until = self._pin, self._valid_until
        self._forget_pin()
        if pin is None or now() >= valid_until:
            return
        with suppress(*Failures):
            # What was settled is acknowledged before the next owner starts from what is not.
            await self._client.flush(timeout=STATUS_TIMEOUT_SECONDS)
            await ask(
                self._client,
                f"CONSUMER.UNPIN.{self._address}",
                {"group": GROUP},
                timeout_seconds=STATUS_TIMEOUT_SECONDS,
            )

    async def _back_off(self) -> None:
        seconds = min(BACKOFF_SECONDS * 2 ** min(self.failures, 10), BACKOFF_MAXIMUM_SECONDS)
        until = now() + seconds
        while not self._stopping and (left := until - now()) > 0:
            await self._pause(left)

    async def _pause(self, seconds: float) -> None:
        """Until something happened, or the time is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        self._woken.clear()


def _pins(info: dict[str, Any]) -> list[str]:
    """Who holds the pin, as the consumer says: nobody or one."""
    found = (group.get("pinned_client_id") for group in info.get("priority_groups") or ())
    return [pin for pin in found if pin]


class Partitions:
    """All partitions of a service; `handle` gets each one's messages in order, several partitions at a time."""

    def __init__(
        self,
        client: Client,
        service: str,
        handle: Handle,
        *,
        partitions: int,
        settings: PullSettings | None = None,
        members: Members | None = None,
    ) -> None:
        self.members = members or Members(client, service)
        self._partitions = [
            Partition(
                client,
                service,
                number,
                mine=partial(self.members.owns, number, partitions),
                handle=handle,
                settings=settings or PullSettings(),
            )
            for number in range(partitions)
        ]
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Raises `Unavailable` if the consumers cannot be declared or the others cannot be heard."""
        for partition in self._partitions:
            await partition.declare()
        self.members.on_change(self._wake)
        self._tasks = [
            asyncio.create_task(partition.run(), name=f"hivemem-{partition.consumer}") for partition in self._partitions
        ]
        try:
            await self.members.start()
        except BaseException:
            await self.stop()
            raise

    async def stop(self, timeout_seconds: float = 10.0) -> None:
        """Leave, and finish what was taken; what takes longer than the time given is left to the next owner."""
        for partition in self._partitions:
            partition.stop()
        leaving = asyncio.create_task(self.members.leave())
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=timeout_seconds)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        await leaving

    def _wake(self) -> None:
        for partition in self._partitions:
            partition.wake()

    async def status(self) -> dict[str, Any]:
        """What this worker holds, and what waits in each partition, whoever holds it."""
        lags = await asyncio.gather(*(partition.lag() for partition in self._partitions))
        return {
            "members": self.members.status(),
            "owned": [partition.number for partition in self._partitions if partition.mine()],
            "pinned": [partition.number for partition in self._partitions if partition.pinned],
            "lag": dict(zip((partition.consumer for partition in self._partitions), lags, strict=True)),
            "settled": sum(partition.settled for partition in self._partitions),
            "failing": {partition.consumer: partition.failures for partition in self._partitions if partition.failures},
        }
