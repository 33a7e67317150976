"""Where the feed stands on each subject: what may be expected there, and which versions are out already."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from hmac import compare_digest
from typing import Any, Final, NamedTuple

import nats.errors
import orjson
import structlog
from nats.aio.client import Client

from hivemem_contracts.errors import Unavailable
from hivemem_contracts.streams import CHANGES, FEED_ID, SIGNATURE
from hivemem_runtime.bounded import BoundedDict
from hivemem_runtime.bus.feed.fleet_key import signature
from hivemem_runtime.bus.jetstream import API, NO_MESSAGE, JetStreamRefused, StoredMessage, ask, message_of

log = structlog.get_logger("hivemem.bus")

FEED_TIME: Final = "ce-time"
KNOWN_SUBJECTS: Final = 50_000
FOREIGN_MESSAGES: Final = 1_000
"""How many messages that no worker wrote are passed over on one subject."""
_ASKED_AT_ONCE: Final = 128
_DIRECT_SECONDS: Final = 5.0


class Place(NamedTuple):
    """The last message of a subject: its sequence in the stream, the version of the record that the last change there
    announces, and that change's id, sequence and commit time."""

    sequence: int
    version: int
    identity: str = ""
    told_at: int = 0
    at: str = ""


NOWHERE: Final = Place(0, 0)


class FeedDoubtful(Exception):
    """A subject ends earlier than it did: the stream may have lost messages."""


class LedgerOlder(Exception):
    """A subject has a version that the ledger does not have, or has with other content."""


class FeedPlaces:
    """A bounded cache of subjects' last messages. It may be outdated, since the server checks each expectation."""

    def __init__(self, client: Client, key: bytes) -> None:
        self._client = client
        self._key = key
        self._places = BoundedDict[str, Place](KNOWN_SUBJECTS)

    def get(self, subject: str) -> Place | None:
        return self._places.get(subject)

    def note(self, subject: str, place: Place) -> None:
        self._places[subject] = place

    def clear(self) -> None:
        self._places.clear()

    async def look_up(self, subjects: Collection[str]) -> None:
        """Ask the stream. Raises `Unavailable`, `FeedDoubtful`, or `JetStreamRefused` if it does not say for another
        reason."""
        wanted = list(subjects)
        for start in range(0, len(wanted), _ASKED_AT_ONCE):
            await self._look_up_some(wanted[start : start + _ASKED_AT_ONCE])

    async def _look_up_some(self, subjects: Sequence[str]) -> None:
        doubtful: list[str] = []
        for subject, place in zip(subjects, await asyncio.gather(*map(self._ask, subjects)), strict=True):
            known = self._places.get(subject) or NOWHERE
            # A later sequence with an earlier version is of a stream that another worker fills again.
            if place.sequence < known.sequence or place.version < known.version:
                doubtful.append(subject)
            self.note(subject, place)
        if doubtful:
            raise FeedDoubtful(f"{len(doubtful)} subjects end earlier than they did, {doubtful[0]} among them")

    async def _ask(self, subject: str) -> Place:
        # Not a direct read, which a replica that lags behind may answer.
        try:
            answer = await ask(self._client, f"STREAM.MSG.GET.{CHANGES}", {"last_by_subj": subject})
        except JetStreamRefused as error:
            if error.code == NO_MESSAGE:
                return NOWHERE
            raise
        last = message = message_of(answer)
        for _ in range(FOREIGN_MESSAGES):
            version = version_of(self._key, message.subject, message.headers, message.data)
            if version is not None:
                committed = message.headers.get(FEED_TIME, "")
                return Place(last.sequence, version, message.headers[FEED_ID], message.sequence, committed)
            log.warning("a message on the feed is from no worker", subject=subject, sequence=message.sequence)
            before = await self._before(subject, message.sequence)
            if before is None:
                break
            message = before
        return Place(last.sequence, 0)

    async def _before(self, subject: str, sequence: int) -> StoredMessage | None:
        """Return the last message on a subject below a sequence."""
        body = orjson.dumps({"multi_last": [subject], "up_to_seq": sequence - 1})
        if sequence <= 1:
            return None
        try:
            found = await self._client.request(f"{API}.DIRECT.GET.{CHANGES}", body, timeout=_DIRECT_SECONDS)
        except (TimeoutError, nats.errors.Error, OSError) as error:
            raise Unavailable(f"the feed cannot be read: {error!r}", retry_after_ms=1000) from error
        headers: dict[str, Any] = found.headers or {}
        if "Nats-Sequence" not in headers:
            return None
        # The server adds its headers after the publisher's, and the last header of a name counts.
        return StoredMessage(int(headers["Nats-Sequence"]), subject, headers, found.data)


def version_of(key: bytes, subject: str, headers: Mapping[str, str], body: bytes) -> int | None:
    """Return the version of the record that a change announces; None for a message that no worker wrote."""
    identity = headers.get(FEED_ID, "")
    given = headers.get(SIGNATURE, "")
    expected = signature(key, ledger_of(headers), subject, identity, body)
    if not compare_digest(given.encode(), expected.encode()):
        return None
    return int(identity.rpartition(":")[2])


def ledger_of(headers: Mapping[str, str]) -> str:
    """Return the name of the ledger that a change is from."""
    return headers.get(SIGNATURE, "").rpartition(".")[0]
