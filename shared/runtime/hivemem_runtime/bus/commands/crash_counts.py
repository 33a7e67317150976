"""Counts the workers that died over a partition's commands, in the bus, where the count outlives them.

The owner of a partition is on probation from when it obtains the pin until it has handled a batch's worth of messages,
has found nothing more to do, or leaves. For that time the partition's entry in the bucket BEGUN names it. An owner
in the entry that is no member any more has died on probation. After two such deaths the next owner handles its messages
one by one, each alone in its process and named in the entry, so that a message which kills is told from its neighbours.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, cast

import nats.errors
import orjson
import structlog
from nats.aio.client import Client

from hivemem_contracts.errors import Unavailable
from hivemem_contracts.streams import BEGUN
from hivemem_runtime.bus import jetstream
from hivemem_runtime.bus.commands.members import Members
from hivemem_runtime.bus.delivery import DurableMessage
from hivemem_runtime.clock import elapsed_seconds

log = structlog.get_logger("hivemem.bus")

DEATHS_TOGETHER: Final = 2
DEATHS_ALONE: Final = 3
OWNERS_KEPT: Final = 8
TRIES: Final = 3
TIMEOUT_SECONDS: Final = 1.0
IDLE_SECONDS: Final = 1.0
"""An owner that has found no message for that long has nothing left to do."""


@dataclass(frozen=True, slots=True)
class Entry:
    """The owners on probation, and the owners that began with a single message alone."""

    owners: tuple[str, ...] = ()
    sequence: int = 0
    stored_at: int = 0
    """With the sequence it names the message for good: a new stream uses sequences again."""
    alone: tuple[str, ...] = ()


class CrashCounts:
    """The count of one partition, kept by one worker. A bucket that fails costs the count, and holds up no command."""

    def __init__(self, client: Client, consumer: str, members: Members, *, probation: int) -> None:
        """`probation` is how many messages an owner has to survive."""
        self._client = client
        self._subject = f"$KV.{BEGUN}.{consumer}"
        self._members = members
        self._probation = probation
        self._left = 0
        """How many messages are left to survive; 0 outside of a probation."""
        self._idle_since: float | None = None
        self.one_by_one = False

    async def begin(self) -> None:
        """To be called with a new pin, before its first message."""
        me = self._members.name
        before = await self._change(lambda entry: replace(entry, owners=_added(entry.owners, me)))
        self._left, self._idle_since = self._probation, None
        self.one_by_one = self._deaths((*before.owners, *before.alone)) >= DEATHS_TOGETHER
        if self.one_by_one:
            log.warning("workers died over these commands; handling them one by one", entry=self._subject)

    async def begin_alone(self, message: DurableMessage) -> bool:
        """Whether workers have died of this message alone, so that it must not be begun again."""
        me, sequence, stored_at = self._members.name, message.sequence, message.stored_at

        def alone(entry: Entry) -> tuple[str, ...]:
            return entry.alone if (entry.sequence, entry.stored_at) == (sequence, stored_at) else ()

        before = await self._change(lambda entry: Entry(entry.owners, sequence, stored_at, _added(alone(entry), me)))
        return self._deaths(alone(before)) >= DEATHS_ALONE

    async def handled(self, count: int) -> None:
        """So many messages were settled, and we live."""
        self._idle_since = None
        if self._left and self._left <= count:
            await self.end()
        self._left = max(0, self._left - count)

    async def idle(self) -> None:
        """There was no message to take."""
        if not self._left:
            return
        if self._idle_since is None:
            self._idle_since = elapsed_seconds()
        elif elapsed_seconds() - self._idle_since >= IDLE_SECONDS:
            await self.end()

    async def end(self) -> None:
        """End the probation: this worker survived it, or leaves. Earlier deaths no longer count."""
        if not self._left:
            return
        self._left, self.one_by_one = 0, False
        me = self._members.name
        await self._change(lambda entry: Entry() if me in entry.owners or me in entry.alone else entry)

    def _deaths(self, owners: tuple[str, ...]) -> int:
        living = {*self._members.living, self._members.name}
        return len(set(owners) - living)

    async def _change(self, change: Callable[[Entry], Entry]) -> Entry:
        """Answers the entry from before; an empty one where the bucket fails."""
        try:
            for _ in range(TRIES):
                before, revision = await self._read()
                after = change(before)
                if after == before or await self._write(after, revision):
                    return before
        except (Unavailable, nats.errors.Error, TimeoutError, OSError) as error:
            log.info("deaths are not counted", entry=self._subject, error=repr(error))
        return Entry()

    async def _read(self) -> tuple[Entry, int]:
        subject = f"{jetstream.API}.DIRECT.GET.KV_{BEGUN}.{self._subject}"
        message = await self._client.request(subject, b"", timeout=TIMEOUT_SECONDS)
        headers = message.headers or {}
        return _entry(message.data), int(headers.get("Nats-Sequence", 0))

    async def _write(self, entry: Entry, revision: int) -> bool:
        """False where somebody else wrote in between."""
        headers = {"Nats-Expected-Last-Subject-Sequence": str(revision)}
        reply = await self._client.request(
            self._subject, orjson.dumps(asdict(entry)), timeout=TIMEOUT_SECONDS, headers=headers
        )
        return "error" not in cast("dict[str, Any]", orjson.loads(reply.data))


def _added(owners: tuple[str, ...], owner: str) -> tuple[str, ...]:
    return (*(other for other in owners if other != owner), owner)[-OWNERS_KEPT:]


def _entry(data: bytes) -> Entry:
    """Anybody may have written it: what is no entry is an empty one."""
    try:
        found: Mapping[str, Any] = orjson.loads(data)
        return Entry(
            tuple(map(str, found["owners"])),
            int(found["sequence"]),
            int(found["stored_at"]),
            tuple(map(str, found["alone"])),
        )
    except (ValueError, KeyError, TypeError):
        return Entry()
