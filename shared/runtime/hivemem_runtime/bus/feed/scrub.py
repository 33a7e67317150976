"""Reading the feed through for messages that the server no longer finds, though it counts them.

A block of the stream whose bytes changed on the disk is found damaged only when it is read, and the server passes over
what it cannot read without a word.
"""

import asyncio
from typing import Final

from nats.aio.client import Client

from hivemem_contracts.streams import CHANGES
from hivemem_runtime.bus.delivery import parse_delivery
from hivemem_runtime.bus.feed.pull import FeedPull, reader
from hivemem_runtime.bus.feed.purged import PurgedSequences
from hivemem_runtime.bus.jetstream import ask
from hivemem_runtime.bus.wire import server_id

BATCH: Final = 500
PAUSE_SECONDS: Final = 0.02
"""Between two batches, so that reading takes a share of the processor and no more."""
_TIMEOUT_SECONDS: Final = 5.0


async def scrub(client: Client, created: str, purged: PurgedSequences) -> str | None:
    """Read every message's headers, from the oldest to the newest. Return what is wrong; None for a whole stream, and
    where the server was started anew meanwhile, which ended the reader."""
    server = server_id(client)
    pull = await reader(client, after=0, subjects=["hive.chg.>"], headers_only=True)
    try:
        wrong = await _read_through(client, pull, created, purged)
        return wrong if server == server_id(client) else None
    finally:
        await pull.unsubscribe()


async def _read_through(client: Client, pull: FeedPull, created: str, purged: PurgedSequences) -> str | None:
    info = await ask(client, f"STREAM.INFO.{CHANGES}")
    end, reached = int(info["state"]["last_seq"]), int(info["state"]["first_seq"]) - 1
    while reached < end:
        try:
            batch = await pull.fetch(BATCH, timeout=_TIMEOUT_SECONDS)
        except TimeoutError:
            batch = []
        for message in batch:
            delivered = parse_delivery(message, "scrub")
            if delivered is None:
                continue
            sequence = delivered.sequence
            if sequence != reached + 1 and await _damaged(client, created, purged, reached, sequence):
                return f"the messages from {reached + 1} to {sequence - 1} cannot be read"
            reached = sequence
        if not batch:
            damaged = await _damaged(client, created, purged, reached, end)
            return f"nothing can be read behind {reached}" if damaged else None
        await asyncio.sleep(PAUSE_SECONDS)
    return None


async def _damaged(client: Client, created: str, purged: PurgedSequences, reached: int, sequence: int) -> bool:
    """Return whether messages between two sequences are gone that the stream should still have."""
    info = await ask(client, f"STREAM.INFO.{CHANGES}")
    first = max(reached + 1, int(info["state"]["first_seq"]))
    if info["created"] != created or sequence <= first:
        return False
    await purged.update(created)
    return purged.count(first, sequence - 1) < sequence - first
