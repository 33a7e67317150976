"""Requests and durable commands of an agent that retries until it is answered, by a plain NATS client."""

import asyncio
from dataclasses import dataclass, field
from typing import Any, Final, cast

import nats
import nats.errors
import orjson
from nats.aio.client import Client

from hivemem_contracts.errors import CODE_HEADER
from hivemem_contracts.subjects import command_subject, request_subject

TENANT: Final = "acme"
AGENT: Final = "bot"
ANSWER_SECONDS: Final = 1.5
PATIENCE_SECONDS: Final = 90.0
_PAUSE_SECONDS: Final = 0.05

Answer = dict[str, Any]


class Refused(Exception):
    """The fleet refused for good with the error `name`, or gave no answer for longer than any outage lasts. `tries`
    counts the requests; the outcome of all but the last is unknown."""

    def __init__(self, detail: str, name: str = "", tries: int = 1) -> None:
        super().__init__(detail)
        self.name = name
        self.tries = tries


async def connect(url: str) -> Client:
    """Connect to one server, or to any of several separated by commas."""

    async def quiet(error: Exception) -> None:
        del error  # the tests take the server away on purpose

    return await nats.connect(  # pyright: ignore[reportUnknownMemberType]  # its options are untyped
        url.split(","), max_reconnect_attempts=-1, reconnect_time_wait=0.05, error_cb=quiet, allow_reconnect=True
    )


@dataclass(frozen=True, slots=True)
class Asking:
    """An agent that calls one service."""

    client: Client
    service: str
    agent: str = AGENT
    tenant: str = TENANT
    resent: set[str] = field(default_factory=set[str])
    """Ids of requests that had no answer in time and were sent again: a worker may get an earlier copy much later."""

    async def request(
        self, operation: str, body: Answer, id: str | None = None, *, seconds: float = ANSWER_SECONDS
    ) -> Answer:
        """Send the request until the service answers; return the answer."""
        return await self._insist(request_subject(self.tenant, self.agent, self.service, operation), body, id, seconds)

    async def command(self, operation: str, route: str, body: Answer, id: str) -> Answer:
        """Publish the command until the stream acknowledges it; return the acknowledgement."""
        subject = command_subject(self.tenant, self.agent, self.service, operation, route)
        return await self._insist(subject, body, id, ANSWER_SECONDS)

    async def _insist(self, subject: str, body: Answer, id: str | None, seconds: float) -> Answer:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + PATIENCE_SECONDS
        data = orjson.dumps(body)
        headers = {"Nats-Msg-Id": id} if id else None
        failure = "no answer"
        tries = 0
        while loop.time() < deadline:
            tries += 1
            try:
                reply = await self.client.request(subject, data, timeout=seconds, headers=headers)
            except (TimeoutError, nats.errors.Error, OSError) as error:
                failure = repr(error)
                if id:
                    self.resent.add(id)
            else:
                answer = cast("Answer", orjson.loads(reply.data))
                # A run that failed has a field of that name.
                failed = CODE_HEADER in (reply.headers or {}) or "stream" in answer
                fault = cast("Answer | None", answer.get("error")) if failed else None
                if fault is None:
                    return answer
                if "name" in fault and not fault["retryable"]:
                    raise Refused(f"{subject} {id}: {fault['name']}: {fault['detail']}", fault["name"], tries)
                failure = str(fault)
            await asyncio.sleep(_PAUSE_SECONDS)  # a pause, as any agent has between retries
        raise Refused(f"{subject} {id}: {PATIENCE_SECONDS:.0f} s without success, at last {failure}")
