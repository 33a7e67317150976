"""A reader of the feed by the public client, whose cursor survives every restart."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

import hivemem
from hivemem import Hive

GROWING: Final = frozenset({"session"})
"""Entities whose versions have gaps: a session's revision counts its events, too."""

Address = tuple[str, str, str]
"""The entity, the namespace and the key."""
Versions = Mapping[int, str]
"""The identity of each version."""


class Told(NamedTuple):
    identity: str
    sequence: int
    life: int


class Follower:
    """After a `FeedError` it continues from `resume` and counts a new life, in which earlier changes may repeat. Within
    a life a version of an address that does not follow the one before it is a finding."""

    def __init__(self, hive: Hive, name: str, prefix: str | None = None) -> None:
        self.name = name
        self.prefix = prefix
        self.cursor = "start"
        self.life = 0
        self.errors: list[str] = []
        self.findings: list[str] = []
        self.told: dict[Address, dict[int, Told]] = defaultdict(dict)
        self._hive = hive
        self._last: dict[Address, int] = {}
        self._task: asyncio.Task[None] | None = None

    @property
    def awake(self) -> bool:
        return self._task is not None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=f"follower-{self.name}")

    async def stop(self) -> None:
        """Stop reading. A later start continues from the cursor."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _run(self) -> None:
        while True:
            try:
                async with self._hive.changes(self.prefix, since=self.cursor) as feed:
                    async for change in feed:
                        self._take(change)
            except hivemem.FeedError as gap:
                self.errors.append(f"{gap.name}: {gap.detail}")
                self.cursor = gap.resume
                self.life += 1
                self._last.clear()
            except hivemem.Unavailable:
                continue  # the servers are away

    def _take(self, change: hivemem.Change) -> None:
        address = (change.entity, change.namespace, change.key or "")
        before = self._last.get(address)
        where = f"{name_of(address)}: version {change.version} (sequence {change.sequence})"
        if before is None:
            if self.life == 0 and change.version != 1:
                self._find(f"{where} is the first one that it was told")
        elif change.version <= before:
            self._find(f"{where} comes after version {before} (sequence {self.told[address][before].sequence})")
        elif address[0] not in GROWING and change.version != before + 1:
            self._find(f"{where} comes right after version {before}, without a FeedError")
        self._last[address] = change.version
        self.told[address][change.version] = Told(identity_of(change), change.sequence, self.life)
        self.cursor = change.cursor

    def _find(self, what: str) -> None:
        self.findings.append(f"reader {self.name}: {what}")

    def compare(self, expected: Mapping[Address, Versions]) -> Iterator[str]:
        """Yield the versions that are missing, differ from the ledger, or are not in the ledger."""
        for address, versions in expected.items():
            if self.prefix in (None, address[0]):
                for what in self._differences(address, versions):
                    yield f"reader {self.name}: {name_of(address)}: {what}"

    def _differences(self, address: Address, versions: Versions) -> Iterator[str]:
        told = self.told.get(address, {})
        lacking = versions.keys() - told.keys()
        if lacking:
            yield f"lacks {spans(lacking)} of {len(versions)} versions; {self._end(address)}"
        other = [number for number, there in told.items() if versions.get(number, there.identity) != there.identity]
        if other:
            yield f"told otherwise: {spans(other)}; {_first(told, other)}, the ledger has {versions[other[0]]}"
        beyond = [number for number in told.keys() - versions.keys() if told[number].life == self.life]
        if beyond:
            end = max(versions, default=0)
            yield f"told beyond the ledger: {spans(beyond)}; {_first(told, beyond)}, the ledger ends at {end}"

    def _end(self, address: Address) -> str:
        last = self._last.get(address)
        at = f"at version {last} (sequence {self.told[address][last].sequence})" if last else "not told of it yet"
        return f"stands at {self.cursor}, {at}, after {self.errors[-1] if self.errors else 'no FeedError'}"


def _first(told: Mapping[int, Told], versions: Sequence[int]) -> str:
    first = told[versions[0]]
    return f"version {versions[0]} (sequence {first.sequence}) as {first.identity}"


def identity_of(change: hivemem.Change) -> str:
    """Return an event's id, the operation of a session's change, or the message id of every other change."""
    if change.entity == "event" and change.value is not None:
        return change.value.event_id
    return change.operation if change.entity in GROWING else str(change.cause)


def name_of(address: Address) -> str:
    return " ".join(part for part in address if part)


def spans(versions: Iterable[int]) -> str:
    """Format `[3, 4, 5, 9]` as `3..5, 9`."""
    found: list[list[int]] = []
    for version in sorted(versions):
        if found and version == found[-1][1] + 1:
            found[-1][1] = version
        else:
            found.append([version, version])
    return ", ".join(f"{first}..{last}" if first != last else str(first) for first, last in found)
