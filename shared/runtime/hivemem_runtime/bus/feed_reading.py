"""The feed as its stream keeps it: which stream that is, and single messages by where they stand."""

import base64
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from nats.aio.client import Client

from hivemem_contracts.errors import Unavailable
from hivemem_contracts.streams import CHANGES, FEED_EPOCH
from hivemem_runtime.bus.jetstream import JetStreamRefused, ask

NO_MESSAGE: Final = 10037
RETRY_AFTER_MS: Final = 1_000


class StoredChange(NamedTuple):
    sequence: int
    data: bytes


class FeedReading:
    """Raises `Unavailable`, also where there is no feed, or no such consumer: somebody is about to make them again."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def identity(self) -> str:
        """Return which feed it is: when the stream was created, and its epoch. Each counts sequences of its own."""
        info = await self._ask(f"STREAM.INFO.{CHANGES}")
        epoch = (info["config"].get("metadata") or {}).get(FEED_EPOCH)
        return f"{info['created']}/{epoch}" if epoch else str(info["created"])

    async def last_sequence(self) -> int:
        """Of the newest message, whatever its subject."""
        return int((await self._ask(f"STREAM.INFO.{CHANGES}"))["state"]["last_seq"])

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
        """Through which sequence a consumer has acknowledged all that it gets."""
        return int((await self._ask(f"CONSUMER.INFO.{CHANGES}.{consumer}"))["ack_floor"]["stream_seq"])

    async def _get(self, wanted: Mapping[str, str | int]) -> StoredChange | None:
        # Not a direct read, which a replica that lags behind may answer.
        answer = await self._ask(f"STREAM.MSG.GET.{CHANGES}", wanted, unless=NO_MESSAGE)
        if not answer:
            return None
        message = answer["message"]
        return StoredChange(int(message["seq"]), base64.b64decode(message.get("data", "")))

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
