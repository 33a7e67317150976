"""Where the feed stands on each subject: what may be expected there, and which versions are out already."""

import asyncio
import base64
from collections import OrderedDict
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from nats.aio.client import Client

from hivemem_contracts.streams import CHANGES, MESSAGE_ID
from hivemem_runtime.bus.jetstream import JetStreamRefused, ask

KNOWN_SUBJECTS: Final = 50_000
_ASKED_AT_ONCE: Final = 128
_NO_MESSAGE: Final = 10037


class Place(NamedTuple):
    """The last message of a subject: its sequence in the stream, and the version of the record that it announces."""

    sequence: int
    version: int


NOWHERE: Final = Place(0, 0)


class FeedPlaces:
    """What was learned of the feed, bounded. It may be outdated: the server compares it with how things are."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._places: OrderedDict[str, Place] = OrderedDict()

    def get(self, subject: str) -> Place | None:
        return self._places.get(subject)

    def note(self, subject: str, place: Place) -> None:
        self._places[subject] = place
        self._places.move_to_end(subject)
        while len(self._places) > KNOWN_SUBJECTS:
            self._places.popitem(last=False)

    async def look_up(self, subjects: Collection[str]) -> None:
        """Ask the stream. Raises `Unavailable`, or `JetStreamRefused` if it has another reason not to say."""
        wanted = list(subjects)
        for start in range(0, len(wanted), _ASKED_AT_ONCE):
            await self._look_up_some(wanted[start : start + _ASKED_AT_ONCE])

    async def _look_up_some(self, subjects: Sequence[str]) -> None:
        for subject, place in zip(subjects, await asyncio.gather(*map(self._ask, subjects)), strict=True):
            self.note(subject, place)

    async def _ask(self, subject: str) -> Place:
        # Not a direct read, which a replica that lags behind may answer.
        try:
            answer = await ask(self._client, f"STREAM.MSG.GET.{CHANGES}", {"last_by_subj": subject})
        except JetStreamRefused as error:
            if error.code == _NO_MESSAGE:
                return NOWHERE
            raise
        message = answer["message"]
        return Place(int(message["seq"]), _version(base64.b64decode(message.get("hdrs", ""))))


def _version(headers: bytes) -> int:
    """A change's id ends with the version of its record."""
    for line in headers.decode().split("\r\n"):
        name, _, value = line.partition(":")
        if name == MESSAGE_ID:
            return int(value.rpartition(":")[2])
    return 0
