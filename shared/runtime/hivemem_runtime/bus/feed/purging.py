"""Purges what the feed told of erased keys. The announcement of the erasure stays."""

import asyncio
from collections.abc import Sequence
from typing import Final

from nats.aio.client import Client

from hivemem_contracts.errors import Unavailable
from hivemem_contracts.streams import CHANGES
from hivemem_runtime.bus.delivery import parse_delivery
from hivemem_runtime.bus.feed.fleet_key import fleet_key
from hivemem_runtime.bus.feed.pull import reader
from hivemem_runtime.bus.feed.purged import PurgedSequences
from hivemem_runtime.bus.feed.stream_keeper import StreamState
from hivemem_runtime.bus.feed.subject_places import version_of
from hivemem_runtime.bus.jetstream import NO_MESSAGE, JetStreamRefused, ask, message_of

BATCH: Final = 500
DELETED_AT_ONCE: Final = 16
WAIT_SECONDS: Final = 2.0
EVENT_TYPE: Final = "ce-type"
DELETED_ALREADY: Final = 10057
"""The server knows of no message to delete: it is gone."""


class FeedPurger:
    """Deletes messages one by one, because the server overwrites their bytes then, and not when it purges a subject."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._purged = PurgedSequences(client)
        self._purging = asyncio.Lock()

    async def purge(self, subjects: Sequence[str], event_type: str) -> int:
        """Delete every message on matching subjects that a later one of `event_type` on its subject declares erased,
        and return how many there were. May be repeated after a crash. Raises `Unavailable`."""
        async with self._purging:
            return await self._purge(subjects, event_type)

    async def _purge(self, subjects: Sequence[str], event_type: str) -> int:
        try:
            feed = await self._feed()
            sequences = await self._purgeable(subjects, event_type)
            for start in range(0, len(sequences), BATCH):
                part = sequences[start : start + BATCH]
                await self._purged.write_down(feed[0], part)
                if await self._feed() != feed:
                    raise Unavailable("the feed changed while a part of it was purged", retry_after_ms=1000)
                for first in range(0, len(part), DELETED_AT_ONCE):
                    await asyncio.gather(*map(self._delete, part[first : first + DELETED_AT_ONCE]))
        except JetStreamRefused as error:
            raise Unavailable(f"the feed cannot be purged: {error.description}", retry_after_ms=1000) from error
        return len(sequences)

    async def _purgeable(self, subjects: Sequence[str], event_type: str) -> list[int]:
        key = await fleet_key(self._client)
        earlier: dict[str, list[int]] = {}
        found: list[int] = []
        wanted = [subject for subject in subjects if await self._has(subject)]
        if not wanted:
            return []
        pull = await reader(self._client, after=0, subjects=wanted, headers_only=True)
        try:
            waiting = True
            while waiting:
                for message in await pull.fetch(BATCH, timeout=WAIT_SECONDS):
                    delivered = parse_delivery(message, "purging")
                    if delivered is None:
                        continue
                    waiting = delivered.pending > 0
                    before = earlier.setdefault(delivered.subject, [])
                    if delivered.headers.get(EVENT_TYPE) == event_type and await self._is_ours(delivered.sequence, key):
                        found += before
                        before.clear()
                    else:
                        before.append(delivered.sequence)
        except TimeoutError:
            pass
        finally:
            await pull.unsubscribe()
        return sorted(found)

    async def _has(self, subject: str) -> bool:
        try:
            await ask(self._client, f"STREAM.MSG.GET.{CHANGES}", {"seq": 1, "next_by_subj": subject})
        except JetStreamRefused as error:
            if error.code != NO_MESSAGE:
                raise
            return False
        return True

    async def _is_ours(self, sequence: int, key: bytes) -> bool:
        """Return whether a worker wrote a message: anybody else could have history deleted by it."""
        message = message_of(await ask(self._client, f"STREAM.MSG.GET.{CHANGES}", {"seq": sequence}))
        return version_of(key, message.subject, message.headers, message.data) is not None

    async def _delete(self, sequence: int) -> None:
        try:
            await ask(self._client, f"STREAM.MSG.DELETE.{CHANGES}", {"seq": sequence})
        except JetStreamRefused as error:
            if error.code not in (NO_MESSAGE, DELETED_ALREADY):
                raise

    async def _feed(self) -> tuple[str, str, int | None]:
        """Return which stream the feed is, in which epoch, over which connection."""
        info = await ask(self._client, f"STREAM.INFO.{CHANGES}")
        state = StreamState.of(info)
        return state.created, state.epoch, self._client.client_id
