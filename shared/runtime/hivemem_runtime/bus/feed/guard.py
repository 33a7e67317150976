"""What an announcer does before it trusts the feed: it compares it with what the ledger knows to have been told."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import structlog
from nats.aio.client import Client

from hivemem_contracts.identifiers import new_id
from hivemem_runtime.bus.feed.newer_changes import changes_ahead
from hivemem_runtime.bus.feed.publisher import Signer
from hivemem_runtime.bus.feed.scrub import scrub
from hivemem_runtime.bus.feed.stream_keeper import FeedKeeper, Loss, StreamState
from hivemem_runtime.bus.streams import StreamSettings
from hivemem_runtime.clock import elapsed_seconds
from hivemem_runtime.ledger.entity import AnyEntity
from hivemem_runtime.ledger.feed_mark import FeedMark
from hivemem_runtime.ledger.port import Ledger

log = structlog.get_logger("hivemem.feed")

CHECK_SECONDS: Final = 5.0
"""The guard compares the feed and the mark this often, even when nothing points at a loss."""
LOSSES_SHOWN: Final = 5


class FeedGuard:
    """Knows how far the feed was told, and looks at the feed: over each new connection before anything is sent, when
    the server says that the stream was changed, and every few seconds."""

    def __init__(self, ledger: Ledger, entities: Sequence[AnyEntity], wake: Callable[[], None]) -> None:
        self._ledger = ledger
        self._entities = entities
        self._wake = wake
        self._keeper: FeedKeeper | None = None
        self._client: Client | None = None
        self._mark: FeedMark | None = None
        """The feed mark as this process knows it; None before the first check."""
        self._checked: int | None = None
        """The connection over which the feed was last found whole."""
        self._doubts = 0
        self._checked_at = 0.0
        self._scrub: asyncio.Task[str | None] | None = None
        self._scrub_of = ""
        """The stream that is being read through, by its creation."""
        self._suspected: Loss | None = None
        self.signer = Signer(b"", "")
        self.losses: list[str] = []
        """Why the feed had to be announced again, the newest few."""

    @property
    def begins(self) -> int:
        """Return the commit time before which nothing is announced again."""
        return 0 if self._mark is None else self._mark.begins

    @property
    def stream(self) -> str:
        """Return the creation time of the stream that was checked."""
        assert self._mark is not None, "the feed was looked at"
        return self._mark.stream

    def start(self, client: Client, streams: StreamSettings) -> None:
        self._client = client
        self._keeper = FeedKeeper(client, streams)
        self._mark = self._checked = self._suspected = None

    async def stop(self) -> None:
        if self._scrub is not None:
            self._scrub.cancel()
            await asyncio.gather(self._scrub, return_exceptions=True)
            self._scrub = None
        if self._keeper is not None:
            await self._keeper.close()

    def doubt(self) -> None:
        """Have the feed looked at before anything else is sent."""
        self._checked = None
        self._doubts += 1
        self._wake()

    def suspect(self, reason: str) -> None:
        """Have the stream made anew, because it has changes that the ledger does not have."""
        self._suspected = Loss(f"the ledger is older: {reason}", anew=True)
        self.doubt()

    def doubtful(self) -> bool:
        scrubbed = self._scrub is not None and self._scrub.done()
        overdue = elapsed_seconds() - self._checked_at >= CHECK_SECONDS
        return self.unchecked() or scrubbed or overdue

    def unchecked(self) -> bool:
        """Return whether nobody has looked at the feed over this connection, or since the stream was changed."""
        assert self._client is not None, "it was started"
        return self._checked is None or self._checked != self._client.client_id

    def note(self, sequence: int, message: str) -> None:
        """Note the newest message of ours that the feed holds, before what it announces is called announced."""
        assert self._mark is not None, "the feed was looked at"
        if sequence > self._mark.sequence:
            self._mark = self._mark._replace(sequence=sequence, message=message)
            self._ledger.note_feed(self._mark)

    def rely(self, feed: str, sequence: int, message: str) -> None:
        """Note a message of the feed that something else of this ledger relies on, if it is the feed of the mark."""
        if self._mark is not None and feed == f"{self._mark.stream}/{self._mark.epoch}":
            self.note(sequence, message)

    async def check(self) -> bool:
        """Return whether the feed lost something, and the ledger has made due again whatever that may have been."""
        keeper, client = self._keeper, self._client
        assert keeper is not None, "it was started"
        assert client is not None, "it was started"
        connection, doubts = client.client_id, self._doubts
        await keeper.watch(self.doubt)
        await keeper.prepare()
        # The marks are read before the stream. Reactions move them on meanwhile, so a stream that was read first could
        # seem to end before them.
        durable = await self._ledger.feed_mark()
        marks = [mark for mark in (durable, self._mark) if mark is not None]
        state = await keeper.state()
        suspected, self._suspected = self._suspected, None
        loss = await keeper.loss(state, marks) or await self._scrubbed(keeper, state) or suspected
        if self._mark is None and durable is not None and not (loss is not None and loss.anew):
            loss = await changes_ahead(client, self._ledger, self._entities, keeper.key, durable, state) or loss
        if loss is not None:
            await self._mend(keeper, state, loss, marks)
        elif self._mark is None:
            self._mark = durable or await self._first_mark(state)
            self._ledger.note_feed(self._mark)
        assert self._mark is not None, "it was just made"
        if loss is None:
            self._mark = self._mark._replace(oldest=state.first)
        self.signer = Signer(keeper.key, self._mark.ledger)
        # News of the stream that came during the check may be newer than its result.
        self._checked, self._checked_at = connection if doubts == self._doubts else None, elapsed_seconds()
        if self._scrub is None and await keeper.claims_scrub():
            self._scrub = asyncio.create_task(scrub(client, state.created, keeper.purged), name="hivemem-scrub")
            self._scrub_of = state.created
        return loss is not None

    async def _first_mark(self, state: StreamState) -> FeedMark:
        """Name the ledger, durably, before it announces anything: an older copy of it is known by that name."""
        await self._ledger.announce_again(FeedMark(state.created, state.epoch, 0, "", 0, _new_name(), state.first))
        made = await self._ledger.feed_mark()
        assert made is not None, "it was just made"
        return made

    async def _mend(self, keeper: FeedKeeper, state: StreamState, loss: Loss, marks: Sequence[FeedMark]) -> None:
        """Have everything announced again that the feed may have lost; what it still holds is left out on the way."""
        log.error("the feed lost changes, they are announced again", reason=loss.reason, anew=loss.anew)
        self.losses = [*self.losses, loss.reason][-LOSSES_SHOWN:]
        if loss.anew:
            state = await keeper.make_anew(state, marks)
        elif loss.renew:
            state = await keeper.begin_epoch(state, marks)
        begins = await keeper.begins(state)
        name = marks[0].ledger if marks else _new_name()
        self._mark = FeedMark(state.created, state.epoch, 0, "", begins, name, state.first)
        await self._ledger.announce_again(self._mark)

    async def _scrubbed(self, keeper: FeedKeeper, state: StreamState) -> Loss | None:
        if self._scrub is None or not self._scrub.done():
            return None
        task, self._scrub = self._scrub, None
        try:
            reason = task.result()
        except Exception as error:
            log.warning("the feed was not read through", error=repr(error))
            return None
        await keeper.scrubbed()
        return Loss(reason, anew=True) if reason is not None and self._scrub_of == state.created else None


def _new_name() -> str:
    return new_id()[-8:].lower()
