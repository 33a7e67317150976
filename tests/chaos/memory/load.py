"""The load: own keys and shared ones, batches, chains of expected versions, durable commands, erasures and leases."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from nats.aio.client import Client

from ..asking import Refused
from .erasing import live_and_die
from .journal import Journal
from .leasing import take_turns
from .writing import Writer, memory

HOT: Final = ("project:hot", "counter")
CHAIN: Final = ("project:hot", "chain")
SHARED: Final = "app:shared"
KEYS: Final = 3
SHARED_KEYS: Final = 5


@dataclass(frozen=True)
class Size:
    owners: int = 6
    """The number of writers that each have keys of their own."""
    counters: int = 4
    """The number of writers that patch the one hot key, each in a field of its own."""
    commanders: int = 4
    """The number of writers of durable commands; the first one patches the hot key."""
    batchers: int = 2
    chainers: int = 3
    """The number of writers that increment one key, each from the version that it read."""
    mayflies: int = 4
    """The number of writers whose namespaces are erased after a few writes, and written again."""
    holders: int = 3
    """The number of agents that queue for the same lease."""


class Load:
    """`run` writes until `stopping` says so, and returns when every write is acknowledged."""

    def __init__(self, clients: Sequence[Client], journal: Journal, seed: int, stopping: Callable[[], bool]) -> None:
        self._journal = journal
        self._writer: Callable[[str], Writer] = lambda name: Writer(name, clients, journal, seed, stopping)

    async def run(self, size: Size) -> None:
        if size.counters or size.commanders:
            first = self._writer("first")
            await first.write("put", memory(*HOT, value={}, expect_version=0))
        await asyncio.gather(
            *self._crew("own", size.owners, write_own),
            *self._crew("hot", size.counters, count_hot),
            *self._crew("command", size.commanders, publish_commands),
            *self._crew("batch", size.batchers, write_batches),
            *self._crew("chain", size.chainers, count_up),
            *self._crew("mayfly", size.mayflies, live_and_die),
            *self._crew("holder", size.holders, take_turns),
        )

    def _crew(self, name: str, count: int, work: Callable[[Writer], Awaitable[None]]) -> list[Awaitable[None]]:
        return [self._until_refused(self._writer(f"{name}{number}"), work) for number in range(count)]

    async def _until_refused(self, writer: Writer, work: Callable[[Writer], Awaitable[None]]) -> None:
        try:
            await work(writer)
        except Refused as error:
            self._journal.findings.append(f"writer {writer.name}: refused: {error}")


async def write_own(writer: Writer) -> None:
    """Write a key in every way; it has one writer, so its version is always known."""
    versions = dict.fromkeys((f"k{number}" for number in range(KEYS)), 0)
    living: set[str] = set()
    namespace = f"user:{writer.name}"
    while not writer.stopping():
        key = writer.choice.choice(list(versions))
        kind, fields = _own_write(writer, key in living, versions[key])
        answer = await writer.write(kind, memory(namespace, key, **fields))
        versions[key] += 1
        if (answer["version"], answer["created"]) != (versions[key], kind == "put" and key not in living):
            writer.journal.findings.append(f"{namespace} {key}: {kind} at {versions[key]} was answered {answer}")
        if kind == "delete":
            living.remove(key)
        else:
            living.add(key)


def _own_write(writer: Writer, lives: bool, version: int) -> tuple[str, dict[str, Any]]:
    chance = writer.choice.random()
    if not lives:
        return ("restore", {}) if version and chance < 0.3 else ("put", {"value": writer.value()})
    if chance < 0.15:
        return "delete", {}
    if chance < 0.3:
        return "put", {"value": writer.value(), "expect_version": version}
    if chance < 0.6:
        return "patch", {"patch": {"number": writer.number + 1, f"n{writer.number % 7}": writer.number}}
    return "put", {"value": writer.value()}


async def count_hot(writer: Writer) -> None:
    while not writer.stopping():
        await writer.write("patch", memory(*HOT, patch={writer.name: writer.number + 1}))


async def publish_commands(writer: Writer) -> None:
    """Publish commands on a route of the writer, every third as a patch; the first writer uses the route of the hot
    key."""
    own = f"app:{writer.name}"
    while not writer.stopping():
        if writer.name.endswith("0"):
            await writer.publish("patch", memory(*HOT, patch={writer.name: writer.number + 1}))
        elif writer.number % 3 == 2:
            await writer.publish("patch", memory(own, "k", patch={f"n{writer.number % 7}": writer.number}))
        else:
            await writer.publish("put", memory(own, "k", value=writer.value()))


async def write_batches(writer: Writer) -> None:
    """Write batches of own keys, one of them twice, and of keys that other writers' batches write too."""
    own = f"user:{writer.name}"
    while not writer.stopping():
        puts = [memory(own, f"k{number}", value=writer.value()) for number in range(KEYS)]
        puts.append(memory(own, "k0", value={**writer.value(), "again": True}))
        shared = writer.choice.sample(range(SHARED_KEYS), KEYS)
        await writer.write_batch([*puts, *(memory(SHARED, f"k{key}", value=writer.value()) for key in shared)])


async def count_up(writer: Writer) -> None:
    """Increment a count that equals the version; a lost update makes them differ."""
    version = 0
    while not writer.stopping():
        body = memory(*CHAIN, value={"count": version + 1, **writer.value()}, expect_version=version)
        answer = await writer.try_to_write("put", body, ["RevisionConflict"])
        if answer is None:
            version = (await writer.asking.request("get", memory(*CHAIN)))["version"]
        else:
            version = answer["version"]
