"""A service as any program sees it: subjects, headers and JSON over a plain NATS client."""

import json
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import nats
import orjson
from nats.aio.client import Client

from hivemem_contracts.subjects import encode_token
from hivemem_runtime.ledger.port import Ledger
from hivemem_runtime.worker import Worker
from hivemem_testing.waiting import DEADLINE_SECONDS, eventually

Body = dict[str, Any]


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
    """A message of the feed, or a dead letter."""

    subject: str
    headers: dict[str, str]
    body: Body
    sequence: int

    @property
    def what(self) -> str:
        return f"{self.body['entity']}.{self.body['operation']}"


@dataclass
class Agent:
    """One agent of a tenant of its own that calls one service; a subclass for each service names it."""

    client: Client
    worker: Worker
    tenant: str
    name: str = "bot"

    SERVICE: ClassVar[str]

    @property
    def ledger(self) -> Ledger:
        """The worker's own ledger, which tests inspect or break."""
        return self.worker._parts.ledger  # pyright: ignore[reportPrivateUsage]  # nothing but a test wants it

    def called(self, name: str) -> Self:
        return type(self)(self.client, self.worker, self.tenant, name)

    def subject(self, operation: str) -> str:
        return f"hive.req.{encode_token(self.tenant)}.{encode_token(self.name)}.{self.SERVICE}.{operation}"

    def id(self, name: str) -> str:
        """Return a message id that includes the tenant, since the stream of commands ignores owners when it detects
        duplicates."""
        return f"{self.tenant}-{name}"

    async def ask(self, operation: str, body: Body | None = None, /, *, id: str | None = None, **fields: Any) -> Body:
        """Return the reply's body. Raises `Refused`. `id` is the request's `Nats-Msg-Id`."""
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

    async def command(
        self,
        operation: str,
        route: str,
        body: Body,
        *,
        id: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        """Publish a durable command, and return once the stream has it."""
        tokens = [self.tenant, self.name, self.SERVICE, operation, route]
        subject = "hive.in." + ".".join(map(encode_token, tokens))
        found = {**(headers or {}), **({"Nats-Msg-Id": id} if id else {})}
        message = await self.client.request(
            subject, orjson.dumps(body), timeout=DEADLINE_SECONDS, headers=found or None
        )
        answer = orjson.loads(message.data)
        assert "error" not in answer, answer

    async def announced(self) -> None:
        """Wait until every commit so far is on the feed."""

        async def idle() -> bool:
            health = await self.worker.probe()
            return bool(health["announcer"]["queued"] == 0)

        await eventually(idle, "everything is announced")

    async def feed(self, below: str = ">") -> list[Told]:
        """Return all changes of this tenant so far."""
        await self.announced()
        return await self.stored("CHANGES", f"hive.chg.{encode_token(self.tenant)}.{below}")

    async def feed_of(self, count: int, below: str = ">") -> list[Told]:
        """Wait until the feed has `count` changes, and return it."""
        found: list[Told] = []

        async def told() -> bool:
            found[:] = await self.feed(below)
            return len(found) >= count

        await eventually(told, f"{count} changes")
        return found

    async def told(self, below: str = ">") -> list[tuple[str, int]]:
        return [(told.what, told.body["version"]) for told in await self.feed(below)]

    async def dead(self) -> list[Told]:
        return await self.stored("DEAD", f"hive.dead.{encode_token(self.tenant)}.>")

    async def letters(self, count: int) -> list[Told]:
        """Wait until there are `count` dead letters, and return them."""
        found: list[Told] = []

        async def there() -> bool:
            found[:] = await self.dead()
            return len(found) >= count

        await eventually(there, f"{count} dead letters")
        return found

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
