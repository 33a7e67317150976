"""The feed as its stream keeps it: which stream that is, and single messages by where they stand."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

import structlog
from nats.aio.client import Client
from pydantic import ValidationError

from hivemem_contracts.changes import Change
from hivemem_contracts.errors import Unavailable
from hivemem_contracts.identifiers import microseconds_from_time
from hivemem_contracts.streams import CHANGES, FEED_EPOCH
from hivemem_runtime.bus.feed.fleet_key import fleet_key
from hivemem_runtime.bus.feed.subject_places import version_of
from hivemem_runtime.bus.jetstream import CONSUMER_NOT_FOUND, NO_MESSAGE, JetStreamRefused, ask, message_of

log = structlog.get_logger("hivemem.bus")

RETRY_AFTER_MS: Final = 1_000


class FeedState(NamedTuple):
    """The identity is the stream's creation time and epoch. A sequence of another identity names another message."""

    identity: str
    last_sequence: int


class StoredChange(NamedTuple):
    """A message in the stream. `stored_at` is in microseconds since 1970."""

    sequence: int
    data: bytes
    stored_at: int
    signed: bool = True

    def change(self) -> Change | None:
        """Return the change in the message, or None if it holds no change that a worker wrote."""
        if not self.signed:
            log.warning("a message on the feed is from no worker", sequence=self.sequence)
            return None
        try:
            return Change.model_validate_json(self.data)
        except ValidationError:
            log.warning("a message of the feed is no change", sequence=self.sequence)
            return None


class FeedReading:
    """Raises `Unavailable`, also where there is no feed, or no such consumer: somebody is about to make them again."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._key: bytes | None = None

    async def state(self) -> FeedState:
        info = await self._ask(f"STREAM.INFO.{CHANGES}")
        epoch = info["config"].get("metadata", {}).get(FEED_EPOCH)
        identity = info["created"] if epoch is None else f"{info['created']}/{epoch}"
        return FeedState(identity, int(info["state"]["last_seq"]))

    async def identity(self) -> str:
        return (await self.state()).identity

    async def last_sequence(self) -> int:
        """Of the newest message, whatever its subject."""
        return (await self.state()).last_sequence

    async def holds(self, sequence: int, stored_at: int) -> bool:
        """Return whether this is still the message of its sequence, and so are the ones before it: it is in the stream,
        or it has reached its maximum age there."""
        message = await self._get({"seq": sequence})
        if message is None:
            return sequence < int((await self._ask(f"STREAM.INFO.{CHANGES}"))["state"]["first_seq"])
        return message.stored_at == stored_at

    async def next(self, subject: str, after: int) -> StoredChange | None:
        """The first message behind a sequence whose subject matches."""
        return await self._get({"seq": after + 1, "next_by_subj": subject})

    async def last(self, subject: str) -> StoredChange | None:
        """The newest one whose subject matches."""
        return await self._get({"last_by_subj": subject})

    async def waiting(self, consumer: str) -> int:
        """How many messages a consumer has not acknowledged yet."""
        info = await self._ask(f"CONSUMER.INFO.{CHANGES}.{consumer}")
        return int(info["num_pending"]) + int(info["num_ack_pending"])

    async def acknowledged(self, consumer: str) -> int:
        """Return the sequence through which a consumer has acknowledged everything that matches its filters.

        Raises `Unavailable` for a sequence beyond the feed's end: the feed has lost its tail, and the messages of the
        lower sequences may be others by now.
        """
        floor = int((await self._ask(f"CONSUMER.INFO.{CHANGES}.{consumer}"))["ack_floor"]["stream_seq"])
        end = await self.last_sequence()
        if floor > end:
            detail = f"the feed ends at {end}, and {consumer} has acknowledged {floor}"
            raise Unavailable(detail, retry_after_ms=RETRY_AFTER_MS)
        return floor

    async def has_consumer(self, consumer: str) -> bool:
        return bool(await self._ask(f"CONSUMER.INFO.{CHANGES}.{consumer}", unless=CONSUMER_NOT_FOUND))

    async def _get(self, wanted: Mapping[str, str | int]) -> StoredChange | None:
        # Not a direct read, which a replica that lags behind may answer.
        answer = await self._ask(f"STREAM.MSG.GET.{CHANGES}", wanted, unless=NO_MESSAGE)
        if not answer:
            return None
        message = message_of(answer)
        stored_at = microseconds_from_time(datetime.fromisoformat(answer["message"]["time"]))
        if self._key is None:
            self._key = await fleet_key(self._client)
        signed = version_of(self._key, message.subject, message.headers, message.data) is not None
        if not signed:
            self._key = None  # it may be another one by now
        return StoredChange(message.sequence, message.data, stored_at, signed)

    async def _ask(
        self, subject: str, body: Mapping[str, str | int] | None = None, *, unless: int | None = None
    ) -> dict[str, Any]:
        """Empty where the answer is the error that was expected."""
        try:
            return await ask(self._client, subject, body)
        except JetStreamRefused as error:
            if error.code == unless:
                return {}
            raise Unavailable(f"the feed cannot be read: {error.description}", retry_after_ms=RETRY_AFTER_MS) from error
