"""The sessions service as any program sees it: subjects, headers and JSON over a plain NATS client."""

import asyncio
import inspect
import itertools
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

import nats
import orjson
from nats.aio.client import Client

from hivemem_contracts.subjects import encode_token
from hivemem_runtime.ledger.port import Ledger
from hivemem_runtime.worker import Worker

DEADLINE_SECONDS: Final = 15.0
POLL_SECONDS: Final = 0.01

Body = dict[str, Any]


async def eventually(holds: Callable[[], bool | Awaitable[bool]], what: str) -> None:
    """Wait for what nothing signals."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + DEADLINE_SECONDS
    while True:
        held = holds()
        if await held if inspect.isawaitable(held) else held:
            return
        assert loop.time() < deadline, f"never within {DEADLINE_SECONDS} s: {what}"
        await asyncio.sleep(POLL_SECONDS)


class Refused(Exception):
    """An error reply: its two headers and its body."""

    def __init__(self, headers: dict[str, str], body: Body) -> None:
        super().__init__(json.dumps(body))
        self.headers = headers
        self.error: Body = body["error"]

    @property
    def code(self) -> int:
        return int(self.error["code"])

    @property
    def context(self) -> Body:
        context: Body = self.error["context"]
        return context


@dataclass(frozen=True)
class Told:
    """A message of the feed."""

    subject: str
    headers: dict[str, str]
    body: Body
    sequence: int

    @property
    def what(self) -> str:
        return f"{self.body['entity']}.{self.body['operation']}"


@dataclass
class Agent:
    """One agent of a tenant of its own."""

    client: Client
    worker: Worker
    tenant: str
    name: str = "bot"
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    @property
    def ledger(self) -> Ledger:
        """The worker's own, to look behind it and to break it."""
        return self.worker._parts.ledger  # pyright: ignore[reportPrivateUsage]  # nothing but a test wants it

    def called(self, name: str) -> "Agent":
        return Agent(self.client, self.worker, self.tenant, name)

    def subject(self, operation: str) -> str:
        return f"hive.req.{encode_token(self.tenant)}.{encode_token(self.name)}.sessions.{operation}"

    def id(self, name: str) -> str:
        """A message id that nobody else has: for a moment, the stream of commands knows ids without their owners."""
        return f"{self.tenant}-{name}"

    async def ask(self, operation: str, body: Body | None = None, /, *, id: str | None = None, **fields: Any) -> Body:
        """The reply's body. Raises `Refused`. `id` is the request's `Nats-Msg-Id`."""
        return await self.send(operation, orjson.dumps({**(body or {}), **fields}), id=id)

    async def send(
        self, operation: str, data: bytes, *, id: str | None = None, headers: dict[str, str] | None = None
    ) -> Body:
        found = dict(headers or {})
        if id is not None:
            found["Nats-Msg-Id"] = id
        message = await self.client.request(
            self.subject(operation), data, timeout=DEADLINE_SECONDS, headers=found or None
        )
        answer: Body = orjson.loads(message.data)
        if message.headers and "Nats-Service-Error-Code" in message.headers:
            raise Refused(message.headers, answer)
        return answer

    async def refusal(
        self, operation: str, body: Body | None = None, /, *, id: str | None = None, **fields: Any
    ) -> Refused:
        try:
            answer = await self.ask(operation, body, id=id, **fields)
        except Refused as refused:
            return refused
        raise AssertionError(f"{operation} was not refused: {answer}")

    async def create(self, session_id: str, /, *, id: str | None = None, **fields: Any) -> Body:
        body = {"session_id": session_id, "app_name": "app", "user_id": "user", **fields}
        while True:
            try:
                return await self.ask("create", body, id=id)
            except Refused as refused:
                # An id is free again as soon as the erasure of its last owner is announced.
                if not refused.error["retryable"]:
                    raise
                await asyncio.sleep(refused.context["retry_after_ms"] / 1_000)

    async def append(self, session_id: str, type: str = "note", /, *, id: str | None = None, **fields: Any) -> Body:
        """Fields of the event are those that are not the append's own."""
        own = {name: fields.pop(name) for name in ("state_delta", "expect_revision") if name in fields}
        return await self.ask("append", id=id, session_id=session_id, event={"type": type, **fields}, **own)

    async def session(self, session_id: str, **fields: Any) -> Body:
        found: Body = (await self.ask("get", session_id=session_id, **fields))["session"]
        return found

    async def events(self, session_id: str, **fields: Any) -> list[Body]:
        """All of them, page by page."""
        found: list[Body] = []
        cursor: str | None = None
        while True:
            page = await self.ask(
                "events", {**fields, "session_id": session_id, **({"cursor": cursor} if cursor else {})}
            )
            found += page["items"]
            cursor = page["cursor"]
            if cursor is None:
                return found

    async def sequences(self, session_id: str, **fields: Any) -> list[int]:
        return [event["sequence"] for event in await self.events(session_id, **fields)]

    async def command(self, operation: str, route: str, body: Body, *, id: str | None = None) -> None:
        """A durable command, until the stream has it."""
        tokens = [self.tenant, self.name, "sessions", operation, route]
        subject = "hive.in." + ".".join(map(encode_token, tokens))
        message = await self.client.request(
            subject, orjson.dumps(body), timeout=DEADLINE_SECONDS, headers={"Nats-Msg-Id": id} if id else None
        )
        answer = orjson.loads(message.data)
        assert "error" not in answer, answer

    async def announced(self) -> None:
        """Until everything that was committed so far stands on the feed."""

        async def idle() -> bool:
            health = await self.worker.probe()
            return bool(health["announcer"]["queued"] == 0)

        await eventually(idle, "everything is announced")

    async def feed(self, below: str = ">") -> list[Told]:
        """Everything that this tenant was told so far."""
        await self.announced()
        return await self.stored("CHANGES", f"hive.chg.{encode_token(self.tenant)}.{below}")

    async def told(self, below: str = ">") -> list[tuple[str, int]]:
        return [(told.what, told.body["version"]) for told in await self.feed(below)]

    async def dead(self) -> list[Told]:
        return await self.stored("DEAD", f"hive.dead.{encode_token(self.tenant)}.>")

    async def stored(self, stream: str, subject: str) -> list[Told]:
        query = orjson.dumps({"subjects_filter": subject})
        info: Body = orjson.loads((await self.client.request(f"$JS.API.STREAM.INFO.{stream}", query)).data)
        counts: dict[str, int] = info["state"].get("subjects") or {}
        expected = sum(counts.values())
        if not expected:
            return []
        jetstream = self.client.jetstream()  # pyright: ignore[reportUnknownMemberType]  # untyped keyword options
        subscription = await jetstream.subscribe(subject, stream=stream, ordered_consumer=True)
        found: list[Told] = []
        while len(found) < expected:
            message = await subscription.next_msg(timeout=DEADLINE_SECONDS)
            body: Body = orjson.loads(message.data or b"{}")
            found.append(Told(message.subject, message.headers or {}, body, message.metadata.sequence.stream))
        await subscription.unsubscribe()
        return found


async def connect(url: str) -> Client:
    return await nats.connect(  # pyright: ignore[reportUnknownMemberType]  # untyped keyword options
        url, max_reconnect_attempts=-1, reconnect_time_wait=0.1
    )
