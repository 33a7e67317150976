"""Things whose numbers increase, and a bus to announce them on."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import nats.errors
import orjson
from nats.aio.client import Client
from nats.js.errors import NotFoundError

from hivemem_contracts.errors import Unavailable
from hivemem_contracts.subjects import Address
from hivemem_runtime.bus.jetstream import JetStreamRefused, ask
from hivemem_runtime.ledger.entity import Announcement, Entity, Stamp, announces_nothing
from hivemem_runtime.ledger.port import Append, Decision, Heads, Ledger, Outcome, Write
from hivemem_runtime.ledger.sqlite import SqliteLedger

TENANT: Final = "acme"
DEADLINE_SECONDS: Final = 20.0
POLL_SECONDS: Final = 0.01
SILENCE_SECONDS: Final = 2.0
UNSPEAKABLE: Final = "unspeakable"
"""The note of a thing that cannot be announced, because its subject would be too long."""


@dataclass(frozen=True, slots=True)
class Thing:
    number: int
    note: str = ""


def _announce(record: Thing, stamp: Stamp) -> tuple[Announcement, ...]:
    address = Address(("x" * 4_000,) if record.note == UNSPEAKABLE else (stamp.id,))
    previous = stamp.version - 1 or None
    return (
        Announcement(
            "thing",
            "counted",
            address,
            stamp.id,
            stamp.version,
            previous,
            {"number": record.number, "note": record.note},
        ),
    )


def _announce_erased(stamp: Stamp) -> tuple[Announcement, ...]:
    return (Announcement("thing", "gone", Address((stamp.id,)), stamp.id, stamp.version, stamp.version - 1, None),)


THING: Final[Entity[Thing, Thing]] = Entity(
    name="thing",
    head=Thing,
    record=Thing,
    evolve=lambda head, record, stamp: record,
    announce=_announce,
    announce_erased=_announce_erased,
    indexed=lambda head: {},
    snapshot_every=1,
    told_as={"thing": lambda namespace, key: namespace},
)


LEVEL: Final[Entity[Thing, Thing]] = Entity(
    name="level",
    head=Thing,
    record=Thing,
    evolve=lambda head, record, stamp: record,
    announce=announces_nothing,
    indexed=lambda head: {},
    snapshot_every=1,
    history=False,
)
"""An entity without history."""


def open_ledger(path: Path, **options: Any) -> SqliteLedger:
    return SqliteLedger(path, [THING, LEVEL], **options)


def count(ledger: Ledger, id: str, note: str = "") -> Awaitable[Outcome]:
    """Queue the next number of a thing."""

    def decide(heads: Heads, now: int) -> Decision:
        head = heads(THING, id)
        number = head.value.number + 1 if head is not None and head.value is not None else 1
        return [Append(THING, id, Thing(number, note))]

    return ledger.commit(Write(TENANT, "bot", THING, id, decide))


def set_level(ledger: Ledger, id: str, number: int) -> Awaitable[Outcome]:
    def decide(heads: Heads, now: int) -> Decision:
        del heads, now
        return [Append(LEVEL, id, Thing(number))]

    return ledger.commit(Write(TENANT, "bot", LEVEL, id, decide))


async def count_many(ledger: Ledger, ids: list[str], note: str = "") -> None:
    await asyncio.gather(*[count(ledger, id, note) for id in ids])


async def told(client: Client) -> dict[str, list[int]]:
    """Return the versions of each thing on the feed, in the order of the stream, duplicates included. Messages that are
    no changes are skipped."""
    found: dict[str, list[int]] = {}
    try:
        state = (await ask(client, "STREAM.INFO.CHANGES"))["state"]
    except (JetStreamRefused, Unavailable):  # the stream is being recreated, or its server is starting
        return found
    if not state["messages"]:
        return found
    jetstream = client.jetstream()  # pyright: ignore[reportUnknownMemberType]  # untyped keyword options
    try:
        subscription = await jetstream.subscribe("hive.chg.>", stream="CHANGES", ordered_consumer=True)
    except NotFoundError:  # the stream was recreated meanwhile
        return found
    for _ in range(int(state["messages"])):
        try:
            message = await subscription.next_msg(timeout=SILENCE_SECONDS)
        except nats.errors.TimeoutError:  # fewer messages than the server counts: some cannot be read
            break
        body: dict[str, Any] = orjson.loads(message.data)
        if body:
            found.setdefault(body["namespace"], []).append(body["version"])
    await subscription.unsubscribe()
    return found


async def eventually(holds: Callable[[], bool | Awaitable[bool]], what: str) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + DEADLINE_SECONDS
    while True:
        held = holds()
        if await held if inspect.isawaitable(held) else held:
            return
        assert loop.time() < deadline, f"never within {DEADLINE_SECONDS} s: {what}"
        await asyncio.sleep(POLL_SECONDS)
