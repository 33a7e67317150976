"""One reaction at work: batches of changes go to its handler, and each is acknowledged, tried again or given up."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import nats.errors
import structlog
from nats.aio.client import Client
from nats.aio.msg import Msg
from pydantic import ValidationError

from hivemem_contracts.changes import Change, traceparent_of
from hivemem_contracts.errors import HiveError, Internal, InvalidRequest, Unavailable
from hivemem_contracts.streams import FEED_ID
from hivemem_contracts.subjects import dead_subject
from hivemem_runtime.backoff import backoff_seconds
from hivemem_runtime.bus.dead_letters import DeadLetter, DeadLetters
from hivemem_runtime.bus.delivery import DurableMessage, parse_delivery
from hivemem_runtime.bus.feed.subject_places import version_of
from hivemem_runtime.bus.wire import plain_frame, send

log = structlog.get_logger("hivemem.reactions")

ATTEMPTS: Final = 5
"""How often a change may fail before it is given up, and come before it is handled by itself."""
CRASHES: Final = 10
"""How often a change may come, first of all, to a process that just began: more, and it is what ends the process."""
BACKOFF_SECONDS: Final = 0.1
BACKOFF_MAXIMUM_SECONDS: Final = 5.0
BATCHES_OUT: Final = 4
ACK: Final = b"+ACK"
UNKNOWN: Final = "unknown"


Rely = Callable[[str, int, str], Awaitable[None]]
"""Makes durable that a feed held a message: the feed, its sequence and its id."""


@dataclass(frozen=True, slots=True)
class ReceivedChange:
    """A change and where it stands on the feed. `delivery` grows by one from each message that any worker gets to the
    next: where it does not, another worker got something in between. `again`: some worker may have got it before, and
    what follows it on the feed too. `stored_at` is when the stream stored it, in microseconds since 1970."""

    change: Change
    subject: str
    sequence: int
    delivery: int
    headers: dict[str, str]
    again: bool = False
    stored_at: int = 0


@dataclass(frozen=True, slots=True)
class Reaction:
    """A handler for changes whose subject matches one of the `filters`.

    `handle` gets changes in feed order, and does all of a batch or raises. It has to tolerate repeated changes: a
    failed batch is delivered again, whole or one by one. A retryable `HiveError` is retried for as long as it takes,
    any other error a few times; then the change goes to DEAD.

    `gather_seconds` is a pause after a batch that was not full, so that the next batch is larger. With `one_batch`, all
    workers together have at most one full batch out, which keeps the feed's order. Another worker gets the batch of one
    that is silent for `ack_wait_seconds`.
    """

    name: str
    filters: tuple[str, ...]
    handle: Callable[[Sequence[ReceivedChange]], Awaitable[None]]
    batch: int = 500
    gather_seconds: float = 0.0
    one_batch: bool = False
    ack_wait_seconds: float | None = None

    @property
    def out_at_once(self) -> int:
        return self.batch if self.one_batch else BATCHES_OUT * self.batch

    def durable(self, service: str) -> str:
        return f"{service}-{self.name}"


@dataclass(frozen=True, slots=True)
class _Item:
    message: Msg
    delivered: DurableMessage
    received: ReceivedChange | None
    foreign: bool = False


class _Stopped(Exception):
    """The worker is leaving; what is not done goes back."""


class Reacting:
    """Carries a reaction out."""

    def __init__(
        self,
        reaction: Reaction,
        service: str,
        client: Client,
        dead: DeadLetters,
        key: bytes,
        *,
        ack_wait_seconds: float,
        rely: Rely | None = None,
    ) -> None:
        self.reaction = reaction
        self.key = key
        """The fleet's: a message that is not signed with it is from no worker."""
        self.feed = ""
        """The feed that its consumer was made for."""
        self._rely = rely
        self.foreign = 0
        """How many messages were passed over because no worker wrote them."""
        self.handled = 0
        self.given_up = 0
        self.failing = 0
        """Failures in a row."""
        self._service = service
        self._client = client
        self._dead = dead
        self._renew_seconds = ack_wait_seconds / 3
        self._stopping = asyncio.Event()
        self._began = False

    def stop(self) -> None:
        self._stopping.set()

    async def react(self, messages: list[Msg]) -> None:
        """Settle a batch, in order; what is left of it when the worker stops is given back at once."""
        left = {item.delivered.sequence: item for item in map(self._item, messages)}
        renewing = asyncio.create_task(self._renew(left))
        try:
            await self._react(left)
        except _Stopped:
            log.info("reaction stopped", reaction=self.reaction.name, given_back=len(left))
        finally:
            renewing.cancel()
            for item in left.values():
                with suppress(nats.errors.Error):
                    await item.message.nak()
        if self.reaction.gather_seconds and len(messages) < self.reaction.batch:
            await self._wait(self.reaction.gather_seconds)

    async def _react(self, left: dict[int, _Item]) -> None:
        items = sorted(left.values(), key=lambda item: item.delivered.sequence)
        began, self._began = self._began, True
        if not began and items[0].delivered.deliveries > CRASHES:
            await self._give_up(items.pop(0), Internal("no worker survived it"), left)
        foreign = [item for item in items if item.foreign]
        if foreign:
            self.foreign += len(foreign)
            log.warning("messages on the feed are from no worker", reaction=self.reaction.name, messages=len(foreign))
            await self._acknowledge(foreign, left)
            items = [item for item in items if not item.foreign]
        for item in [item for item in items if item.received is None]:
            await self._give_up(item, InvalidRequest("the message is no change", field="body"), left)
            items.remove(item)
        suspicious = any(item.delivered.deliveries > ATTEMPTS for item in items)
        if items and not suspicious and await self._try(items, attempts=1) is None:
            await self._done(items, left)
            return
        for item in items:
            failure = await self._try([item], attempts=ATTEMPTS)
            if failure is None:
                await self._done([item], left)
            else:
                await self._give_up(item, failure, left)

    async def _try(self, items: list[_Item], *, attempts: int) -> HiveError | None:
        """None once they are handled, or why they cannot be. Waits for as long as the reason is one that passes."""
        changes = [item.received for item in items if item.received is not None]
        failed = 0
        while True:
            if self._stopping.is_set():
                raise _Stopped
            try:
                if self._rely is not None:
                    # If the feed loses these messages it uses their sequences again, which must not count as handled.
                    last = items[-1].delivered
                    await self._rely(self.feed, last.sequence, last.headers.get(FEED_ID, ""))
                await self.reaction.handle(changes)
            except HiveError as error:
                if not error.retryable:
                    return error
                log.warning("reaction postponed", reaction=self.reaction.name, error=str(error))
            except Exception:
                log.exception("reaction failed", reaction=self.reaction.name, changes=len(changes))
                failed += 1
                if failed >= attempts:
                    return Internal("the worker failed to react to it; its log says how")
            else:
                self.failing = 0
                return None
            await self._back_off()

    async def _back_off(self) -> None:
        self.failing += 1
        await self._wait(backoff_seconds(self.failing, BACKOFF_SECONDS, BACKOFF_MAXIMUM_SECONDS))

    async def _wait(self, seconds: float) -> None:
        """No longer than until the worker stops."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()

    async def _done(self, items: list[_Item], left: dict[int, _Item]) -> None:
        await self._acknowledge(items, left)
        self.handled += len(items)

    async def _acknowledge(self, items: list[_Item], left: dict[int, _Item]) -> None:
        try:
            await send(self._client, [plain_frame(item.message.reply, ACK) for item in items])
        except nats.errors.Error:
            # The client library keeps these until it is connected again.
            for item in items:
                await item.message.ack()
        for item in items:
            del left[item.delivered.sequence]

    async def _give_up(self, item: _Item, reason: HiveError, left: dict[int, _Item]) -> None:
        letter = self._letter(item, reason)
        while True:
            try:
                await self._dead.publish(letter)
                break
            except Unavailable as error:
                log.warning("dead letter not stored", id=letter.id, error=str(error))
            await self._back_off()
            if self._stopping.is_set():
                raise _Stopped
        self.given_up += 1
        await item.message.ack()
        del left[item.delivered.sequence]

    def _letter(self, item: _Item, reason: HiveError) -> DeadLetter:
        delivered, received = item.delivered, item.received
        name = f"reaction-{self.reaction.name}"
        subject = dead_subject(UNKNOWN, UNKNOWN, self._service, name)
        if received is not None:
            with suppress(HiveError):  # the names of a forged change may be too long for a subject
                subject = dead_subject(received.change.tenant, received.change.actor, self._service, name)
        return DeadLetter(
            subject=subject,
            data=delivered.data,
            error=reason,
            original_subject=delivered.subject,
            original_id=delivered.headers.get(FEED_ID, ""),
            id=f"reaction:{self._service}:{self.reaction.name}:{delivered.stored_at}:{delivered.sequence}",
            traceparent=traceparent_of(delivered.headers),
        )

    async def _renew(self, left: dict[int, _Item]) -> None:
        """Tell the server that we are still at it, so that nobody else gets the same."""
        while left:
            await asyncio.sleep(self._renew_seconds)
            for item in list(left.values()):
                with suppress(nats.errors.Error):
                    await item.message.in_progress()

    def _item(self, message: Msg) -> _Item:
        delivered = parse_delivery(message, "reactions")
        assert delivered is not None, "a message that the stream did not deliver is not pulled"
        if version_of(self.key, delivered.subject, delivered.headers, delivered.data) is None:
            return _Item(message, delivered, None, foreign=True)
        try:
            change = Change.model_validate_json(delivered.data)
        except ValidationError:
            return _Item(message, delivered, None)
        received = ReceivedChange(
            change,
            delivered.subject,
            delivered.sequence,
            delivered.delivery,
            delivered.headers,
            delivered.deliveries > 1,
            delivered.stored_at // 1_000,
        )
        return _Item(message, delivered, received)
