"""Publishing to the feed: each change once, in the order of its subject's versions, whoever else publishes it too.

Every message says which one it expects to be the last of its subject, so the server takes nothing that is out already
and nothing out of order: not from a worker that thaws, nor one that repeats what it cannot know to have arrived. A few
messages on distinct subjects go out side by side, each acknowledged. More of them, or several on one subject, go as
atomic batches: the server stores all of a batch in its order, or none of it, and syncs its file once for all of them.
"""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Any, Final, NamedTuple, cast

import nats.errors
import orjson
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from hivemem_contracts.changes import change_id, event_headers
from hivemem_contracts.identifiers import format_microseconds
from hivemem_contracts.limits import CHANGE_VALUE_BYTES
from hivemem_contracts.streams import CHANGES, FEED_ID, SIGNATURE
from hivemem_contracts.subjects import change_subject
from hivemem_runtime.bus.feed.fleet_key import signature
from hivemem_runtime.bus.feed.subject_places import NOWHERE, FeedDoubtful, FeedPlaces, LedgerOlder, Place
from hivemem_runtime.bus.jetstream import JetStreamRefused, ask
from hivemem_runtime.bus.subscriptions import subscribe
from hivemem_runtime.bus.wire import frame, header_lines, send
from hivemem_runtime.ledger.entity import Announcement, Stamp

SIDE_BY_SIDE: Final = 10
"""Each of them is a sync of the server's file; a batch costs more processor time and syncs once."""
BATCH_MESSAGES: Final = 500
BATCH_BYTES: Final = 8 * 1024 * 1024
ACKNOWLEDGE_SECONDS: Final = 5.0
ATTEMPTS: Final = 10
"""Each one that is refused means that somebody else has published what we wanted to."""

_NOT_AS_EXPECTED: Final = (10071, 10164, 10201)
"""Another message is the subject's last; a batch holds an id that the server knows."""


Newest = Callable[[tuple[str, str, str]], Awaitable[int]]


class PublishFailed(Exception):
    """The server did not take it, or did not say so in time; the same may be sent again."""


class Signer(NamedTuple):
    """Who signs changes: the fleet's key, and the name of the ledger that they are from."""

    key: bytes
    ledger: str


class Outgoing(NamedTuple):
    """A message of the feed: `lines` are its headers as they travel. `version` is the record's; it grows along a
    subject. `first` where no earlier one is known at the address. `key` is the record's key: entity, tenant and id."""

    subject: str
    lines: str
    body: bytes
    version: int
    first: bool
    identity: str
    at: str
    key: tuple[str, str, str]


def encode_announcement(announcement: Announcement, stamp: Stamp, signer: Signer) -> Outgoing:
    """Return the message of a `Change`, built as plain JSON: this runs once for every write of the fleet."""
    tokens = announcement.address.tokens
    at = format_microseconds(stamp.at)
    value = orjson.dumps(announcement.value)
    omitted = len(value) > CHANGE_VALUE_BYTES
    fields = {
        "entity": announcement.entity,
        "operation": announcement.operation,
        "tenant": stamp.tenant,
        "namespace": announcement.namespace,
        "key": announcement.key,
        "version": announcement.version,
        "previous_version": announcement.previous_version,
        "value": None if omitted else orjson.Fragment(value),
        "value_omitted": omitted,
        "actor": stamp.actor,
        "cause": stamp.cause,
        "at": at,
    }
    identity = change_id(stamp.tenant, announcement.entity, tokens, announcement.version)
    if announcement.version != stamp.version:
        # Numbers of its own begin anew after an erasure, and the bus must not take a new life for a twin of the old.
        identity = f"{identity}:{stamp.version}"
    headers = event_headers(identity, announcement.entity, announcement.operation, tokens, at, stamp.traceparent)
    subject = change_subject(stamp.tenant, announcement.entity, announcement.address)
    first = announcement.previous_version is None
    body = orjson.dumps(fields)
    identity = headers[FEED_ID]
    headers[SIGNATURE] = signature(signer.key, signer.ledger, subject, identity, body)
    key = (stamp.entity, stamp.tenant, stamp.id)
    return Outgoing(subject, header_lines(headers), body, stamp.version, first, identity, at, key)


class Publisher:
    """One wave at a time. Acknowledgements come to an inbox of its own."""

    def __init__(
        self,
        client: Client,
        key: bytes,
        created: str | None = None,
        newest: Newest | None = None,
        unchecked: Callable[[], bool] = lambda: False,
    ) -> None:
        """`created` is the creation time of the stream that was checked; None where nobody makes it anew. `newest`
        returns the newest version of a record in the ledger; None where no ledger can be older than the feed.
        `unchecked` returns whether the connection, or the stream, is another one than was checked."""
        self._client = client
        self._created = created
        self._newest = newest
        self._unchecked = unchecked
        self._places = FeedPlaces(client, key)
        self.last = (0, "")
        """The last message of ours that the feed is known to hold: its sequence and its id."""
        self._inbox = client.new_inbox()
        self._subscription: Subscription | None = None
        self._expected: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._number = 0

    async def close(self) -> None:
        if self._subscription is not None and not self._client.is_closed:
            await self._subscription.unsubscribe()
        self._subscription = None

    async def publish(self, messages: Sequence[Outgoing]) -> None:
        """Return when the feed holds all of it, each once, in order per subject. Raises `PublishFailed` or
        `Unavailable`: then send it again. Raises `FeedDoubtful` where the feed may have lost messages, `LedgerOlder`
        where it has what the ledger does not have."""
        try:
            if self._subscription is None:
                self._subscription = await subscribe(self._client, f"{self._inbox}.*", self._acknowledged)
            for _ in range(ATTEMPTS):
                left = await self._not_out(messages)
                if self._unchecked():
                    raise FeedDoubtful("the connection or the stream changed on the way")
                refused = await self._send(left) if left else set[str]()
                if not refused:
                    return
                await self._places.look_up(refused)
                await self._compare(refused, messages)
        except (JetStreamRefused, nats.errors.Error) as error:
            raise PublishFailed(f"{len(messages)} changes could not be published: {error!r}") from error
        raise PublishFailed("others publish on the same subjects all the time")

    async def _not_out(self, messages: Sequence[Outgoing]) -> list[Outgoing]:
        """Return the messages that the feed does not hold yet. The server is asked about unknown subjects."""
        unknown: dict[str, None] = {}
        for message in messages:
            if message.subject in unknown or self._places.get(message.subject) is not None:
                continue
            if message.first:
                self._places.note(message.subject, NOWHERE)  # if that is wrong, the server says so
            else:
                unknown[message.subject] = None
        await self._look_up_unknown(unknown)
        await self._compare(unknown, messages)
        left: list[Outgoing] = []
        for message in messages:
            place = self._places.get(message.subject) or NOWHERE
            if message.version > place.version:
                left.append(message)
            elif place.told_at > self.last[0]:
                self.last = place.told_at, place.identity
        return left

    async def _look_up_unknown(self, subjects: Collection[str]) -> None:
        """Look subjects up in the stream that was checked. A stream that was made anew meanwhile holds nothing on them,
        and would take a late version before the early ones."""
        await self._places.look_up(subjects)
        if subjects and self._created is not None:
            info = await ask(self._client, f"STREAM.INFO.{CHANGES}")
            if info["created"] != self._created:
                self._places.clear()
                raise FeedDoubtful("the stream was made anew")

    async def _compare(self, subjects: Collection[str], messages: Sequence[Outgoing]) -> None:
        """Raises `LedgerOlder` if a subject that was looked up has a version that the ledger lacks, or another change
        under the same version: the ledger was put back, and the change would count as told."""
        last: dict[str, Outgoing] = {}
        for message in messages if self._newest is not None and subjects else ():
            if message.subject not in subjects:
                continue
            place = self._places.get(message.subject) or NOWHERE
            if message.version == place.version and message.at != place.at:
                raise LedgerOlder(f"the feed has another change as {message.identity}")
            last[message.subject] = message
        for subject, message in last.items():
            version = (self._places.get(subject) or NOWHERE).version
            if self._newest is not None and message.version < version and await self._newest(message.key) < version:
                raise LedgerOlder(f"the feed has version {version} of {' '.join(message.key)}")

    async def _send(self, messages: Sequence[Outgoing]) -> set[str]:
        """The subjects whose last message may be another one than was expected; what was sent there is not stored."""
        if len(messages) <= SIDE_BY_SIDE and len({message.subject for message in messages}) == len(messages):
            return await self._side_by_side(messages)
        for batch in _batches(messages):
            refused = await self._atomic(batch)
            if refused:
                return refused
        return set()

    async def _acknowledged(self, message: Msg) -> None:
        future = self._expected.pop(message.subject.rpartition(".")[2], None)
        if future is not None and not future.done():
            future.set_result(_acknowledgement(message))

    def _expect(self) -> tuple[str, asyncio.Future[dict[str, Any]]]:
        """An inbox for one acknowledgement, and what waits for it."""
        self._number += 1
        token = str(self._number)
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._expected[token] = future
        return f"{self._inbox}.{token}", future

    def _expectation(self, subject: str) -> str:
        place = self._places.get(subject) or NOWHERE
        return f"Nats-Expected-Last-Subject-Sequence: {place.sequence}\r\n"

    async def _side_by_side(self, messages: Sequence[Outgoing]) -> set[str]:
        expected = [self._expect() for _ in messages]
        frames = [
            frame(message.subject, message.lines + self._expectation(message.subject), message.body, reply)
            for message, (reply, _) in zip(messages, expected, strict=True)
        ]
        answers = await self._answers(frames, [future for _, future in expected], len(messages))
        refused: set[str] = set()
        for message, answer in zip(messages, answers, strict=True):
            if _code(answer) in _NOT_AS_EXPECTED or answer.get("duplicate"):
                refused.add(message.subject)
            elif "error" in answer:
                raise _failure(answer)
            else:
                self._note(int(answer["seq"]), message)
        return refused

    async def _atomic(self, messages: Sequence[Outgoing]) -> set[str]:
        batch = f"Nats-Batch-Id: {uuid.uuid4().hex}\r\nNats-Batch-Sequence: "
        reply, future = self._expect()
        frames: list[bytes] = []
        subjects: set[str] = set()
        for place, message in enumerate(messages, 1):
            last = place == len(messages)
            # Behind the first one of its subject, a message follows what stands before it in the batch.
            expectation = "" if message.subject in subjects else self._expectation(message.subject)
            subjects.add(message.subject)
            commit = "Nats-Batch-Commit: 1\r\n" if last else ""
            lines = f"{message.lines}{expectation}{batch}{place}\r\n{commit}"
            frames.append(frame(message.subject, lines, message.body, reply if last else ""))
        (answer,) = await self._answers(frames, [future], len(messages))
        if _code(answer) in _NOT_AS_EXPECTED:
            return subjects
        if "error" in answer:
            raise _failure(answer)
        first = int(answer["seq"]) - len(messages) + 1
        for sequence, message in enumerate(messages, first):
            self._note(sequence, message)
        return set()

    def _note(self, sequence: int, message: Outgoing) -> None:
        place = Place(sequence, message.version, message.identity, sequence, message.at)
        self._places.note(message.subject, place)
        if sequence > self.last[0]:
            self.last = sequence, message.identity

    async def _answers(
        self, frames: Iterable[bytes], expected: Sequence[asyncio.Future[dict[str, Any]]], count: int
    ) -> list[dict[str, Any]]:
        try:
            await send(self._client, frames)
            async with asyncio.timeout(ACKNOWLEDGE_SECONDS):
                return await asyncio.gather(*expected)
        except (TimeoutError, OSError, nats.errors.Error) as error:
            self._expected.clear()  # one wave at a time: all of these are ours
            raise PublishFailed(f"{count} changes were not acknowledged: {error!r}") from error


def _code(answer: dict[str, Any]) -> int:
    return int(answer.get("error", {}).get("err_code", 0))


def _failure(answer: dict[str, Any]) -> PublishFailed:
    return PublishFailed(str(answer["error"].get("description", answer["error"])))


def _acknowledgement(message: Msg) -> dict[str, Any]:
    """What the stream says. Where no stream listens, the server answers without a body: that is no acknowledgement."""
    if not message.data:
        return {"error": {"description": "no stream takes changes just now"}}
    return cast("dict[str, Any]", orjson.loads(message.data))


def _batches(messages: Sequence[Outgoing]) -> list[list[Outgoing]]:
    batches: list[list[Outgoing]] = [[]]
    size = 0
    for message in messages:
        size += len(message.body)
        if batches[-1] and (len(batches[-1]) == BATCH_MESSAGES or size > BATCH_BYTES):
            batches.append([])
            size = len(message.body)
        batches[-1].append(message)
    return batches
