"""Reads back the stored sessions and the whole feed of the fleet."""

from dataclasses import dataclass
from typing import Any, Final

import orjson
from nats.aio.client import Client

from hivemem_contracts.streams import CHANGES, DEAD, INGEST
from hivemem_contracts.subjects import request_subject

from .load import ASKER, TENANT, answered

PAGE: Final = 1_000
NEXT_SECONDS: Final = 10.0
STATS_SECONDS: Final = 1.0


@dataclass(frozen=True)
class Announced:
    """One change on the feed."""

    entity: str
    session_id: str
    version: int
    previous_version: int | None
    event_id: str | None


async def events_of(client: Client, session_id: str) -> list[dict[str, Any]]:
    subject = request_subject(TENANT, ASKER, "sessions", "events")
    found: list[dict[str, Any]] = []
    body: dict[str, Any] = {"session_id": session_id, "limit": PAGE}
    while True:
        page = await answered(client, subject, body, f"read-{session_id}-{len(found)}")
        found += page["items"]
        if page["cursor"] is None:
            return found
        body["cursor"] = page["cursor"]


async def messages_in(client: Client, stream: str) -> int:
    info = await answered(client, f"$JS.API.STREAM.INFO.{stream}", {}, f"info-{stream}")
    return int(info["state"]["messages"])


async def commands_waiting(client: Client) -> int:
    return await messages_in(client, INGEST)


async def dead_letters(client: Client) -> int:
    return await messages_in(client, DEAD)


async def feed(client: Client) -> list[Announced]:
    """Return all changes of the tenant, in the order of the stream."""
    if not await messages_in(client, CHANGES):
        return []
    jetstream = client.jetstream()  # pyright: ignore[reportUnknownMemberType]  # untyped keyword options
    subscription = await jetstream.subscribe(f"hive.chg.{TENANT}.>", ordered_consumer=True)
    found: list[Announced] = []
    try:
        while True:
            message = await subscription.next_msg(NEXT_SECONDS)
            change = orjson.loads(message.data)
            value = change["value"] if change["entity"] == "event" else None
            found.append(
                Announced(
                    change["entity"],
                    change["namespace"],
                    change["version"],
                    change["previous_version"],
                    value["event_id"] if value else None,
                )
            )
            if message.metadata.num_pending == 0:
                return found
    finally:
        await subscription.unsubscribe()


async def appends_answered(client: Client, *, replicas: int) -> dict[str, int]:
    """Return how many appends each replica has answered, by its id on the bus."""
    inbox = client.new_inbox()
    subscription = await client.subscribe(inbox)  # pyright: ignore[reportUnknownMemberType]  # an untyped Future
    counts: dict[str, int] = {}
    try:
        await client.publish("$SRV.STATS.sessions", reply=inbox)
        while len(counts) < replicas:
            stats = orjson.loads((await subscription.next_msg(STATS_SECONDS)).data)
            counts[stats["id"]] = sum(
                endpoint["data"]["completed"] for endpoint in stats["endpoints"] if endpoint["name"] == "append"
            )
        return counts
    finally:
        await subscription.unsubscribe()
