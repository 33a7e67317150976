"""The feed as its stream keeps it: which stream that is, and single messages by where they stand."""

import base64
from typing import Final, NamedTuple

from nats.aio.client import Client

from hivemem_contracts.streams import CHANGES
from hivemem_runtime.bus.jetstream import JetStreamRefused, ask

NO_MESSAGE: Final = 10037


class StoredChange(NamedTuple):
    sequence: int
    data: bytes


class FeedReading:
    """Raises `Unavailable`, or `JetStreamRefused` where the server has a reason of its own."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def identity(self) -> str:
        """When the stream was created: sequences of one that was made again begin anew."""
        return str((await ask(self._client, f"STREAM.INFO.{CHANGES}"))["created"])

    async def next(self, subject: str, after: int) -> StoredChange | None:
        """The first message behind a sequence whose subject matches."""
        return await self._get({"seq": after + 1, "next_by_subj": subject})

    async def last(self, subject: str) -> StoredChange | None:
        """The newest one whose subject matches."""
        return await self._get({"last_by_subj": subject})

    async def waiting(self, consumer: str) -> int:
        """How many messages a consumer has not acknowledged yet."""
        info = await ask(self._client, f"CONSUMER.INFO.{CHANGES}.{consumer}")
        return int(info["num_pending"]) + int(info["num_ack_pending"])

    async def _get(self, wanted: dict[str, str | int]) -> StoredChange | None:
        # Not a direct read, which a replica that lags behind may answer.
        try:
            message = (await ask(self._client, f"STREAM.MSG.GET.{CHANGES}", wanted))["message"]
        except JetStreamRefused as error:
            if error.code == NO_MESSAGE:
                return None
            raise
        return StoredChange(int(message["seq"]), base64.b64decode(message.get("data", "")))
