"""Requests and durable commands of an agent that never gives up, by a plain NATS client."""

import asyncio
from typing import Any, Final, cast

import nats
import nats.errors
import orjson
from nats.aio.client import Client

TENANT: Final = "acme"
AGENT: Final = "bot"
ANSWER_SECONDS: Final = 1.5
PATIENCE_SECONDS: Final = 90.0
_PAUSE_SECONDS: Final = 0.05

Answer = dict[str, Any]


class Refused(Exception):
    """The fleet's final no, or no answer at all for longer than any of its servers was away."""


async def connect(url: str) -> Client:
    async def quiet(error: Exception) -> None:
        del error  # that the server goes away is what this is about

    return await nats.connect(  # pyright: ignore[reportUnknownMemberType]  # its options are untyped
        url, max_reconnect_attempts=-1, reconnect_time_wait=0.05, error_cb=quiet, allow_reconnect=True
    )


async def request(client: Client, operation: str, body: Answer, id: str | None = None) -> Answer:
    """The answer of the sessions service; the same request is sent again for as long as there is none."""
    subject = f"hive.req.{TENANT}.{AGENT}.sessions.{operation}"
    return await _insist(client, subject, body, id)


async def command(client: Client, operation: str, route: str, body: Answer, id: str) -> Answer:
    """The stream's acknowledgement."""
    subject = f"hive.in.{TENANT}.{AGENT}.sessions.{operation}.{route}"
    return await _insist(client, subject, body, id)


async def _insist(client: Client, subject: str, body: Answer, id: str | None) -> Answer:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + PATIENCE_SECONDS
    data = orjson.dumps(body)
    headers = {"Nats-Msg-Id": id} if id else None
    failure = "no answer"
    while loop.time() < deadline:
        try:
            reply = await client.request(subject, data, timeout=ANSWER_SECONDS, headers=headers)
        except (TimeoutError, nats.errors.Error, OSError) as error:
            failure = repr(error)
        else:
            answer = cast("Answer", orjson.loads(reply.data))
            fault = cast("Answer | None", answer.get("error"))
            if fault is None:
                return answer
            if "name" in fault and not fault["retryable"]:
                raise Refused(f"{subject} {id}: {fault['name']}: {fault['detail']}")
            failure = str(fault)
        await asyncio.sleep(_PAUSE_SECONDS)  # as any agent does before it asks again
    raise Refused(f"{subject} {id}: {PATIENCE_SECONDS:.0f} s without success, at last {failure}")
