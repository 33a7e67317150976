"""Compares windows, their originals and the feed with the acknowledgements. A finding names the window."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from nats.aio.client import Client

from ..asking import Asking
from ..feed import Entry, in_order, read_feed
from ..journal import Journal, Sent
from .load import WINDOWS, place


async def verify(client: Client, journal: Journal) -> list[str]:
    asking = Asking(client, "windows")
    feed = await read_feed(client)
    found: list[str] = []
    for number in range(WINDOWS):
        key = f"w{number}"
        sent = [each for each in journal.sent if each.place == key and each.answer is not None]
        if not sent:
            continue
        read = await asking.request("read", place(key))
        messages = [*await _originals(asking, key), *read["messages"]]
        found += check_messages(key, messages, sent)
        found += check_feed(key, read["version"], [entry for entry in feed if entry.body["key"] == key], sent)
        found += check_counters(key, await asking.request("stats", place(key)), messages)
    return found


async def _originals(asking: Asking, key: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    while True:
        page = await asking.request("originals", {**place(key), **cursor})
        items += page["items"]
        if page["cursor"] is None:
            return items
        cursor = {"cursor": page["cursor"]}


def check_messages(key: str, messages: Sequence[dict[str, Any]], sent: Sequence[Sent]) -> Iterator[str]:
    """Check that each acknowledged message is there once, under its sequence, and that no sequence is missing."""
    there = Counter(message["sequence"] for message in messages)
    if sorted(there.elements()) != list(range(1, len(messages) + 1)):
        yield f"{key}: the sequences are {sorted(there.elements())}"
    contents = {message["sequence"]: message["content"] for message in messages}
    for each in sent:
        if each.kind == "append" and each.answer is not None:
            content = contents.get(each.answer["sequence"])
            if content != each.body["message"]["content"]:
                yield f"{key}: {each.id} was acknowledged as {each.answer['sequence']}, where {content!r} is"


def check_feed(key: str, version: int, entries: Sequence[Entry], sent: Sequence[Sent]) -> Iterator[str]:
    bodies = [entry.body for entry in entries if entry.body["entity"] == "window"]
    yield from in_order(key, (body["version"] for body in bodies), range(1, version + 1))
    flushes = Counter(body["value"]["flush_id"] for body in bodies if body["operation"] == "flushed")
    for flush_id, times in flushes.items():
        if times > 1:
            yield f"{key}: flush {flush_id} was applied {times} times"
    for each in sent:
        if each.kind == "flush" and each.answer is not None and each.answer["flush_id"] not in flushes:
            yield f"{key}: {each.id} was acknowledged, and the feed has no flush {each.answer['flush_id']}"


def check_counters(key: str, stats: dict[str, Any], messages: Sequence[object]) -> Iterator[str]:
    if stats["appended"] != len(messages):
        yield f"{key}: {stats['appended']} messages were counted, and there are {len(messages)}"
    if stats["flushed"] + stats["evicted"] + stats["messages"] != stats["appended"]:
        yield f"{key}: the counters do not add up: {stats}"
