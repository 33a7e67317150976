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

Feed = tuple[str, str, int | None]
"""Which stream the feed is, in which epoch, over which connection."""

BATCH: Final = 500
ASKED_AT_ONCE: Final = 64
DELETED_AT_ONCE: Final = 4
"""The server deletes one message after another, and everyone's requests to JetStream wait behind these."""
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
        and return how many there were. May be repeated after a crash. Raises `Unavailable`.

        Several purges take turns, so that a small one does not wait for the end of a large one."""
        try:
            async with self._purging:
                feed = await self._feed()
                sequences = await self._purgeable(subjects, event_type)
            for start in range(0, len(sequences), BATCH):
                async with self._purging:
                    await self._purge(feed, sequences[start : start + BATCH])
        except JetStreamRefused as error:
            raise Unavailable(f"the feed cannot be purged: {error.description}", retry_after_ms=1000) from error
        return len(sequences)

    async def _purge(self, feed: Feed, sequences: Sequence[int]) -> None:
        await self._purged.write_down(feed[0], sequences)
        if await self._feed() != feed:
            raise Unavailable("the feed changed while a part of it was purged", retry_after_ms=1000)
        for first in range(0, len(sequences), DELETED_AT_ONCE):
            await asyncio.gather(*map(self._delete, sequences[first : first + DELETED_AT_ONCE]))

    async def _purgeable(self, subjects: Sequence[str], event_type: str) -> list[int]:
        wanted = [subject for subject in subjects if await self._has(subject)]
        if not wanted:
            return []
        places, tombstones = await self._read(wanted, event_type)
        signed = await self._signed(tombstones)
        found: list[int] = []
        for sequences in places.values():
            last = max(signed.intersection(sequences), default=0)
            found += [sequence for sequence in sequences if sequence < last and sequence not in signed]
        return sorted(found)

    async def _read(self, subjects: Sequence[str], event_type: str) -> tuple[dict[str, list[int]], list[int]]:
        """Return the sequences of all messages by subject, and the sequences of tombstones."""
        places: dict[str, list[int]] = {}
        tombstones: list[int] = []
        pull = await reader(self._client, after=0, subjects=subjects, headers_only=True)
        try:
            waiting = True
            while waiting:
                for message in await pull.fetch(BATCH, timeout=WAIT_SECONDS):
                    delivered = parse_delivery(message, "purging")
                    if delivered is None:
                        continue
                    waiting = delivered.pending > 0
                    places.setdefault(delivered.subject, []).append(delivered.sequence)
                    if delivered.headers.get(EVENT_TYPE) == event_type:
                        tombstones.append(delivered.sequence)
        except TimeoutError:
            pass
        finally:
            await pull.unsubscribe()
        return places, tombstones

    async def _signed(self, sequences: Sequence[int]) -> set[int]:
        """Return the sequences of messages from workers: anybody else could have history deleted by a tombstone."""
        key = await fleet_key(self._client)
        signed: set[int] = set()
        for start in range(0, len(sequences), ASKED_AT_ONCE):
            part = sequences[start : start + ASKED_AT_ONCE]
            wanted = [ask(self._client, f"STREAM.MSG.GET.{CHANGES}", {"seq": sequence}) for sequence in part]
            for message in map(message_of, await asyncio.gather(*wanted)):
                if version_of(key, message.subject, message.headers, message.data) is not None:
                    signed.add(message.sequence)
        return signed

    async def _has(self, subject: str) -> bool:
        try:
            await ask(self._client, f"STREAM.MSG.GET.{CHANGES}", {"seq": 1, "next_by_subj": subject})
        except JetStreamRefused as error:
            if error.code != NO_MESSAGE:
                raise
            return False
        return True

    async def _delete(self, sequence: int) -> None:
        try:
            await ask(self._client, f"STREAM.MSG.DELETE.{CHANGES}", {"seq": sequence})
        except JetStreamRefused as error:
            if error.code not in (NO_MESSAGE, DELETED_ALREADY):
                raise

    async def _feed(self) -> Feed:
        info = await ask(self._client, f"STREAM.INFO.{CHANGES}")
        state = StreamState.of(info)
        return state.created, state.epoch, self._client.client_id
