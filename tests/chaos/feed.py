"""The whole feed as the stream has it, read without any code of the fleet, and checks of its order."""

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple, cast

import orjson
from nats.aio.client import Client

from hivemem_contracts.streams import CHANGES, DEAD, INGEST

_BATCH: Final = 1_000
_END: Final = ("204", "404")
_ANSWER_SECONDS: Final = 10.0


class Entry(NamedTuple):
    sequence: int
    subject: str
    body: dict[str, Any]


async def read_feed(client: Client) -> list[Entry]:
    return await _read(client, CHANGES, "hive.chg.>")


async def read_dead_letters(client: Client) -> list[Entry]:
    return await _read(client, DEAD, "hive.dead.>")


async def _read(client: Client, stream: str, subject: str) -> list[Entry]:
    entries: list[Entry] = []
    while batch := await _read_batch(client, stream, subject, entries[-1].sequence + 1 if entries else 1):
        entries += batch
    return entries


async def _read_batch(client: Client, stream: str, subject: str, first: int) -> list[Entry]:
    inbox = client.new_inbox()
    subscription = await client.subscribe(inbox)  # pyright: ignore[reportUnknownMemberType]  # an untyped Future
    body = orjson.dumps({"seq": first, "batch": _BATCH, "next_by_subj": subject})
    await client.publish(f"$JS.API.DIRECT.GET.{stream}", body, reply=inbox)
    entries: list[Entry] = []
    while True:
        message = await subscription.next_msg(timeout=_ANSWER_SECONDS)
        headers = message.headers or {}
        if headers.get("Status") in _END:
            break
        sequence, subject = int(headers["Nats-Sequence"]), headers["Nats-Subject"]
        entries.append(Entry(sequence, subject, cast("dict[str, Any]", orjson.loads(message.data))))
    await subscription.unsubscribe()
    return entries


def in_order(subject: str, versions: Iterable[int], expected: Iterable[int]) -> Iterator[str]:
    """Yield a finding for each missing, repeated or reordered entry."""
    seen: set[int] = set()
    highest = 0
    for version in versions:
        if version in seen:
            yield f"feed {subject}: version {version} comes twice, the second time after {highest}"
        elif version < highest:
            yield f"feed {subject}: version {version} comes after {highest}"
        seen.add(version)
        highest = max(highest, version)
    wanted = set(expected)
    for version in sorted(wanted - seen):
        yield f"feed {subject}: version {version} is missing"
    for version in sorted(seen - wanted):
        yield f"feed {subject}: version {version} is there and never was committed"


async def last_sequence(client: Client) -> int:
    return int((await _state(client, CHANGES))["last_seq"])


async def commands_waiting(client: Client) -> int:
    return int((await _state(client, INGEST))["messages"])


async def _state(client: Client, stream: str) -> dict[str, Any]:
    reply = await client.request(f"$JS.API.STREAM.INFO.{stream}", b"", timeout=_ANSWER_SECONDS)
    return cast("dict[str, Any]", orjson.loads(reply.data)["state"])
