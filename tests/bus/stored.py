"""Functions that publish commands and changes, and read the contents of a stream."""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

import nats.errors
import nats.js.errors
import orjson
from nats.aio.client import Client

from hivemem_contracts.changes import Change
from hivemem_contracts.streams import MESSAGE_ID
from hivemem_contracts.subjects import Address, command_subject
from hivemem_runtime.bus.jetstream import ask
from hivemem_testing.feed import announced

from .items import AGENT, TENANT

PUBLISH_SECONDS = 1.0
PUBLISH_ATTEMPTS = 60


@dataclass(frozen=True)
class Stored:
    subject: str
    headers: dict[str, str]
    data: bytes


async def publish(client: Client, subject: str, data: bytes, headers: dict[str, str] | None = None) -> dict[str, Any]:
    """Publish until the stream answers, since the server may be away for a while. Return its answer."""
    for _ in range(PUBLISH_ATTEMPTS):
        try:
            reply = await client.request(subject, data, timeout=PUBLISH_SECONDS, headers=headers)
        except nats.errors.NoRespondersError:
            await asyncio.sleep(PUBLISH_SECONDS / 10)
        except nats.errors.Error:
            continue
        else:
            answer: dict[str, Any] = orjson.loads(reply.data)
            return answer
    raise AssertionError(f"nothing took {subject}")


async def command(
    client: Client,
    operation: str,
    item: str,
    number: int,
    *,
    tenant: str = TENANT,
    message_id: str | None = "",
    service: str = "items",
    **more: Any,
) -> dict[str, Any]:
    """Publish a command. With `message_id` None it has no id header; with "" its id names the item and the number."""
    subject = command_subject(tenant, AGENT, service, operation, item)
    headers = None if message_id is None else {MESSAGE_ID: message_id or f"{item}-{number}"}
    return await publish(client, subject, orjson.dumps({"item": item, "number": number, **more}), headers)


async def change(client: Client, item: str, version: int, *, tenant: str = TENANT) -> None:
    told = Change(
        entity="item",
        operation="added",
        tenant=tenant,
        namespace=item,
        version=version,
        previous_version=version - 1 or None,
        actor=AGENT,
        at=datetime.now(UTC),
    )
    await publish(client, *await announced(client, told, Address((item,))))


async def messages_in(client: Client, stream: str) -> list[Stored]:
    """Return all messages of a stream, in order."""
    jetstream = client.jetstream()  # pyright: ignore[reportUnknownMemberType]  # untyped keyword options
    state = (await ask(client, f"STREAM.INFO.{stream}"))["state"]
    found: list[Stored] = []
    if not state["messages"]:
        return found
    for sequence in range(int(state["first_seq"]), int(state["last_seq"]) + 1):
        try:
            message = await jetstream.get_msg(stream, sequence)
        except nats.js.errors.NotFoundError:
            continue
        headers = cast("dict[str, str]", message.headers or {})  # pyright: ignore[reportUnknownMemberType]  # an open Dict
        found.append(Stored(message.subject or "", headers, message.data or b""))
    return found


async def count_in(client: Client, stream: str) -> int:
    return int((await ask(client, f"STREAM.INFO.{stream}"))["state"]["messages"])
