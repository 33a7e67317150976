"""The whole feed as it stands in the stream, read without any code of the fleet."""

from typing import Any, Final, NamedTuple, cast

import orjson
from nats.aio.client import Client

from hivemem_contracts.streams import CHANGES, INGEST

_BATCH: Final = 1_000
_END: Final = ("204", "404")
_ANSWER_SECONDS: Final = 10.0


class Entry(NamedTuple):
    sequence: int
    subject: str
    body: dict[str, Any]


async def read_feed(client: Client) -> list[Entry]:
    entries: list[Entry] = []
    while batch := await _read_batch(client, entries[-1].sequence + 1 if entries else 1):
        entries += batch
    return entries


async def _read_batch(client: Client, first: int) -> list[Entry]:
    inbox = client.new_inbox()
    subscription = await client.subscribe(inbox)  # pyright: ignore[reportUnknownMemberType]  # an untyped Future
    body = orjson.dumps({"seq": first, "batch": _BATCH, "next_by_subj": "hive.chg.>"})
    await client.publish(f"$JS.API.DIRECT.GET.{CHANGES}", body, reply=inbox)
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


async def last_sequence(client: Client) -> int:
    return int((await _state(client, CHANGES))["last_seq"])


async def commands_waiting(client: Client) -> int:
    return int((await _state(client, INGEST))["messages"])


async def _state(client: Client, stream: str) -> dict[str, Any]:
    reply = await client.request(f"$JS.API.STREAM.INFO.{stream}", b"", timeout=_ANSWER_SECONDS)
    return cast("dict[str, Any]", orjson.loads(reply.data)["state"])
