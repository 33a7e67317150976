"""The stream of changes as it is now: whether it still holds what a ledger takes for announced, and making it whole.

A power cut, a damaged block or an older folder takes messages away that the stream had acknowledged, and their
sequences are handed out again. The ledgers are the truth: what the feed lost is announced again from them. An *epoch*
in the stream's metadata tells what was read before such a loss from what is read after it. Where something is missing
in the middle, or the feed has what the ledger lacks, order cannot be restored: the stream is made anew.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Final, NamedTuple

import nats.errors
import structlog
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from hivemem_contracts.errors import Unavailable
from hivemem_contracts.identifiers import microseconds_from_time, new_id
from hivemem_contracts.streams import CHANGES, FEED_EPOCH, FEED_ID
from hivemem_runtime.bus import streams
from hivemem_runtime.bus.feed.claims import claim, claimed
from hivemem_runtime.bus.feed.fleet_key import fingerprint, fleet_key
from hivemem_runtime.bus.feed.purged import PurgedSequences
from hivemem_runtime.bus.feed.subject_places import FEED_TIME
from hivemem_runtime.bus.jetstream import NANOSECONDS, NO_MESSAGE, STREAM_NOT_FOUND, JetStreamRefused, ask, message_of
from hivemem_runtime.bus.streams import BEGINS, KEY, StreamSettings
from hivemem_runtime.bus.subscriptions import subscribe
from hivemem_runtime.bus.wire import server_id
from hivemem_runtime.clock import elapsed_seconds
from hivemem_runtime.ledger.feed_mark import FeedMark, epoch_number

log = structlog.get_logger("hivemem.feed")

SLACK_MICROSECONDS: Final = 60_000_000
FULL_BYTES: Final = 1024 * 1024
"""A stream this close to its maximum size may have removed its oldest messages to stay below it."""
SCRUB_SECONDS: Final = 120.0
ANEW_POLLS: Final = 40
ANEW_POLL_SECONDS: Final = 0.05
_ADVISORIES: Final = f"$JS.EVENT.ADVISORY.STREAM.*.{CHANGES}"


class StreamState(NamedTuple):
    """The stream: when it was created, its epoch, its oldest and newest message, how many are missing in between.
    `forgets`: messages may have left it by age or size."""

    created: str
    epoch: str
    first: int
    last: int
    missing: int
    begins: int
    key: str
    forgets: bool

    @property
    def empty(self) -> bool:
        return self.last < self.first

    @classmethod
    def of(cls, info: dict[str, Any]) -> "StreamState":
        state: dict[str, Any] = info["state"]
        metadata: dict[str, str] = info["config"].get("metadata") or {}
        messages, last = int(state["messages"]), int(state["last_seq"])
        return cls(
            str(info["created"]),
            metadata.get(FEED_EPOCH, ""),
            int(state["first_seq"]) if messages else last + 1,
            last,
            int(state.get("num_deleted") or 0) if messages else 0,
            int(metadata.get(BEGINS, 0)),
            metadata.get(KEY, ""),
            _forgets(info),
        )


class Loss(NamedTuple):
    """What the feed lost. `anew`: the stream has to be made anew, because what is left cannot be put in order. `renew`:
    the stream needs another epoch, which no other worker has given it yet."""

    reason: str
    anew: bool = False
    renew: bool = False


class FeedKeeper:
    """Looks at the stream for one worker, and changes it where it has to be mended."""

    def __init__(self, client: Client, settings: StreamSettings) -> None:
        self._client = client
        self._settings = settings
        self._advisories: Subscription | None = None
        self._scrubbed: str = ""
        """The start of the server after which the feed was read through."""
        self._awaited: str = ""
        """The start of the server after which some worker is to read it through."""
        self._declared: str = ""
        """The start of the server after which the streams were declared."""
        self._awaited_since = 0.0
        self.key = b""
        self.purged = PurgedSequences(client)

    async def watch(self, changed: Callable[[], None]) -> None:
        """Call `changed` whenever the stream is made, deleted or changed, until `close`."""

        async def heard(message: Msg) -> None:
            changed()

        if self._advisories is None:
            self._advisories = await subscribe(self._client, _ADVISORIES, heard)

    async def close(self) -> None:
        if self._advisories is not None and not self._client.is_closed:
            with suppress(nats.errors.Error):
                await self._advisories.unsubscribe()
        self._advisories = None

    async def claims_scrub(self) -> bool:
        """Return whether this worker is the one to read the feed through: once for each start of the server, which is
        when damage to its files comes to light. Where nobody comes to the end of it in time, every worker does it."""
        server = server_id(self._client)
        if server == self._scrubbed:
            return False
        if await claimed(self._client, "scrubbed") == server:
            self._scrubbed = server
            return False
        if server != self._awaited:
            self._awaited, self._awaited_since = server, elapsed_seconds()
            return await claim(self._client, "scrubbing", server)
        if elapsed_seconds() - self._awaited_since < SCRUB_SECONDS:
            return False
        self._awaited_since = elapsed_seconds()
        return True

    async def scrubbed(self) -> None:
        """Have nobody else read the feed through. Call it when that is done."""
        self._scrubbed = self._awaited
        await claim(self._client, "scrubbed", self._scrubbed)

    async def state(self) -> StreamState:
        """Return the stream as it is, made anew where it is gone. Raises `Unavailable`."""
        try:
            return StreamState.of(await self._info())
        except JetStreamRefused as error:
            if error.code != STREAM_NOT_FOUND:
                raise
        await streams.declare(self._client, self._settings, known_key=self.key or None)
        return StreamState.of(await self._info())

    async def prepare(self) -> None:
        """Learn the fleet's key. Declare every stream once for each start of the server, which may have lost some."""
        server = server_id(self._client)
        if server != self._declared:
            await streams.declare(self._client, self._settings, known_key=self.key or None)
            self._declared = server
        try:
            self.key = await fleet_key(self._client, self.key or None)
        except Unavailable:
            self._declared = ""  # the bucket itself may be gone
            raise

    async def loss(self, state: StreamState, marks: Sequence[FeedMark]) -> Loss | None:
        """Return what is wrong with the stream, as seen from what a ledger knows to have been told."""
        await self.purged.update(state.created)
        missing = state.missing - self.purged.count(state.first, state.last)
        if missing > 0:
            return Loss(f"{missing} messages are missing in its middle", anew=True)
        if state.key != fingerprint(self.key):
            return Loss("it is signed with another key", anew=not state.empty, renew=True)
        for mark in marks:
            lost = await self._lost_since(state, mark)
            if lost is not None:
                return lost
        if all((mark.stream, mark.epoch) == (state.created, state.epoch) for mark in marks):
            return None
        newest = max(marks, key=lambda mark: mark.epoch_number)
        behind = epoch_number(state.epoch) - newest.epoch_number
        renew = behind < 0 or (behind == 0 and newest.stream != state.created)
        return Loss(f"its epoch is {state.epoch or 'none'}, and was {newest.epoch or 'none'}", renew=renew)

    async def _lost_since(self, state: StreamState, mark: FeedMark) -> Loss | None:
        """Return what the stream of a mark has lost since, at its beginning or at its end."""
        if mark.unfinished:
            return Loss("it was not made due as a whole")
        if self._lost_its_beginning(state, mark):
            return Loss(f"it begins at {state.first}, and began at {mark.oldest}", anew=True)
        if (mark.stream, mark.epoch) != (state.created, state.epoch):
            return None
        if mark.sequence > state.last:
            return Loss(f"it ends at {state.last}, and ended at {mark.sequence}", renew=True)
        if await self._is_another(state, mark):
            return Loss(f"it holds another message at {mark.sequence}", renew=True)
        return None

    def _lost_its_beginning(self, state: StreamState, mark: FeedMark) -> bool:
        if mark.stream != state.created or not 0 < mark.oldest < state.first or state.forgets:
            return False
        return self.purged.count(mark.oldest, state.first - 1) < state.first - mark.oldest

    async def _is_another(self, state: StreamState, mark: FeedMark) -> bool:
        """Return whether another message is stored at the mark. A message that was removed proves nothing."""
        if mark.sequence < state.first or self.purged.count(mark.sequence, mark.sequence):
            return False
        return (await self._headers_at(mark.sequence)).get(FEED_ID) != mark.message

    async def begin_epoch(self, state: StreamState, marks: Sequence[FeedMark]) -> StreamState:
        """Have the stream go on in an epoch that no mark has seen. One worker does it, and the others wait for it."""
        first = await claim(self._client, "epoch_after", f"{state.created}/{state.epoch}/{fingerprint(self.key)}")
        begun = await self._unless(
            lambda found: (found.created, found.epoch, found.key) == (state.created, state.epoch, state.key), first
        )
        if begun is not None:
            return begun
        number = max(epoch_number(state.epoch), *(mark.epoch_number for mark in marks), 0) + 1
        config = (await self._info())["config"]
        config["metadata"] = (config.get("metadata") or {}) | self._metadata(number, state.begins)
        await ask(self._client, f"STREAM.UPDATE.{CHANGES}", config)
        return await self.state()

    async def make_anew(self, state: StreamState, marks: Sequence[FeedMark]) -> StreamState:
        """Delete the stream and create it in a later epoch. One worker does it, and the others wait for it."""
        first = await claim(self._client, "made_anew", state.created)
        made = await self._unless(lambda found: found.created == state.created, first)
        if made is not None:
            return made
        number = max(epoch_number(state.epoch), *(mark.epoch_number for mark in marks), 0) + 1
        begins = await self.begins(state)
        with suppress(JetStreamRefused):
            await ask(self._client, f"STREAM.DELETE.{CHANGES}")
        await streams.declare(self._client, self._settings, feed=self._metadata(number, begins))
        return await self.state()

    async def _unless(self, same: Callable[[StreamState], bool], first: bool) -> StreamState | None:
        """Return the stream as another worker changed it meanwhile; None where it is the same. The worker that has the
        claim does not wait for others."""
        for _ in range(1 if first else ANEW_POLLS):
            with suppress(JetStreamRefused):
                found = StreamState.of(await self._info())
                if not same(found):
                    return found
            if not first:
                await asyncio.sleep(ANEW_POLL_SECONDS)
        return None

    async def begins(self, state: StreamState) -> int:
        """Return a moment before which nothing has to be announced again, because it has left the feed by age or size.

        It is a while before the oldest change that is left was committed: announcing keeps no order across keys."""
        if state.first == 1 or state.empty or not state.forgets:
            return state.begins
        oldest = await self._headers_at(state.first)
        try:
            committed = microseconds_from_time(datetime.fromisoformat(oldest[FEED_TIME]))
        except (KeyError, ValueError):
            return state.begins
        return max(state.begins, committed - SLACK_MICROSECONDS)

    def _metadata(self, number: int, begins: int) -> dict[str, str]:
        return {FEED_EPOCH: f"{number}-{new_id()[-6:].lower()}", BEGINS: str(begins), KEY: fingerprint(self.key)}

    async def _headers_at(self, sequence: int) -> Mapping[str, str]:
        """Return the headers of a message; none where there is no such message."""
        try:
            answer = await ask(self._client, f"STREAM.MSG.GET.{CHANGES}", {"seq": sequence})
        except JetStreamRefused as error:
            if error.code == NO_MESSAGE:
                return {}
            raise
        return message_of(answer).headers

    async def _info(self) -> dict[str, Any]:
        try:
            return await ask(self._client, f"STREAM.INFO.{CHANGES}")
        except JetStreamRefused as error:
            if error.code == STREAM_NOT_FOUND:
                raise
            raise Unavailable(f"the feed cannot be read: {error.description}", retry_after_ms=1000) from error


def _forgets(info: Mapping[str, Any]) -> bool:
    """Return whether messages may have left a stream by age or size, given the server's answer about it."""
    config, answered = info["config"], str(info.get("ts") or info["created"])
    age = datetime.fromisoformat(answered) - datetime.fromisoformat(str(info["created"]))
    max_age, max_bytes = int(config.get("max_age") or 0), int(config.get("max_bytes") or 0)
    is_old = max_age > 0 and age.total_seconds() * NANOSECONDS >= max_age
    return is_old or 0 < max_bytes <= int(info["state"]["bytes"]) + FULL_BYTES
