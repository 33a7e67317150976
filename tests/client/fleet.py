"""A stand-in for the workers: it speaks the contract over a real server and gives the answers that a test sets."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import nats.errors
import orjson
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.micro import add_service  # pyright: ignore[reportUnknownVariableType]  # its keywords have no types
from nats.micro.request import Request
from nats.micro.service import Service
from pydantic import BaseModel

from hivemem_contracts.catalog import SERVICES
from hivemem_contracts.changes import Change, change_headers
from hivemem_contracts.errors import CODE_HEADER, TEXT_HEADER, HiveError
from hivemem_contracts.identifiers import new_id
from hivemem_contracts.operations import AnyOperation
from hivemem_contracts.sessions.models import Event
from hivemem_contracts.sessions.replies import Appended
from hivemem_contracts.streams import CHANGES, DEAD, DEAD_ERROR, DEAD_MESSAGE_ID, DEAD_SUBJECT, INGEST, MESSAGE_ID
from hivemem_contracts.subjects import Address, change_subject

DEADLINE_SECONDS: Final = 10.0
POLL_SECONDS: Final = 0.01
STREAMS: Final = {INGEST: "hive.in.>", CHANGES: "hive.chg.>", DEAD: "hive.dead.>"}


@dataclass(frozen=True)
class Asked:
    """One request as the stand-in received it."""

    subject: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def message_id(self) -> str | None:
        return self.headers.get(MESSAGE_ID)


Answer = Callable[[Asked], BaseModel | bytes | HiveError | None]
"""Returns the answer to a request, or None for no answer."""


def appended(asked: Asked) -> Appended:
    return Appended(session_id=asked.body["session_id"], event_id="e1", sequence=1, revision=2, duplicate=False)


@dataclass
class Fleet:
    """One worker of each service, with access to the streams. `answers` has the answers of the sessions service by the
    name of the operation, and the answers of other services by the operation's full name."""

    client: Client
    asked: list[Asked] = field(default_factory=list[Asked])
    answers: dict[str, Answer] = field(default_factory=dict[str, Answer])
    services: list[Service] = field(default_factory=list[Service])
    health: dict[str, Any] = field(default_factory=lambda: {"ready": True})
    left: bool = False

    async def heard_of(self, _: Exception) -> None:
        """Ignore connection errors, since many of these tests restart the server."""
        if self.left:
            # nats-py can miss the cancellation of a reconnect, which would then never end.
            raise asyncio.CancelledError

    async def close(self) -> None:
        await self.client.close()
        self.left = True

    async def serve(self, version: str = "0.1.0") -> None:
        """Answer every operation: appends to sessions with a default, the others by `answers`."""
        self.answers.setdefault("append", appended)
        for contract in SERVICES:
            service = await add_service(
                self.client,
                name=contract.name,
                version=version,
                metadata={"product": "hivemem"},
                stats_handler=self._stats,
            )
            self.services.append(service)
            for operation in contract:
                subject = f"hive.req.*.*.{operation.full_name}"
                await service.add_endpoint(name=operation.name, subject=subject, handler=self._handler(operation))
        await self.client.flush()

    async def listen(self, subject: str) -> Callable[[], Awaitable[list[bytes]]]:
        """Record the messages on a subject until the returned function is awaited, which returns them."""
        heard: list[bytes] = []

        async def hear(message: Msg) -> None:
            heard.append(message.data)

        # nats-py has no types for its futures.
        await self.client.subscribe(subject, cb=hear)  # pyright: ignore[reportUnknownMemberType]
        await self.client.flush()

        async def so_far() -> list[bytes]:
            await self.client.flush()
            return heard

        return so_far

    async def leave(self) -> None:
        for service in self.services:
            await service.stop()
        await self.client.flush()

    def _stats(self, _: object) -> dict[str, Any]:
        return {"completed": 0, "errors": 0, "average_ms": 0.0, "health": self.health}

    def _handler(self, operation: AnyOperation) -> Callable[[Request], Awaitable[None]]:
        async def handle(request: Request) -> None:
            asked = Asked(request.subject, request.headers or {}, orjson.loads(request.data or b"{}"))
            self.asked.append(asked)
            name = operation.name if operation.service == "sessions" else operation.full_name
            answer = self.answers[name](asked)
            if isinstance(answer, HiveError):
                await request.respond_error(str(answer.code), answer.detail, orjson.dumps(answer.body()))
            elif isinstance(answer, bytes):
                await request.respond(answer)
            elif answer is not None:
                await request.respond(answer.model_dump_json().encode())

        return handle

    async def api(self, call: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Call the JetStream API until it answers, since it is not ready right after a restart."""
        answer: dict[str, Any] = {}

        async def answered() -> bool:
            try:
                message = await self.client.request(f"$JS.API.{call}", orjson.dumps(body or {}), timeout=1)
            except (nats.errors.NoRespondersError, nats.errors.TimeoutError):
                return False
            answer.update(orjson.loads(message.data))
            return True

        await eventually(answered, f"an answer of the JetStream API to {call}")
        return answer

    async def make_streams(self, **settings: Any) -> None:
        """Create the three streams of the fleet anew, all with `settings`."""
        for name, subjects in STREAMS.items():
            await self.api(f"STREAM.DELETE.{name}")
            usual = {"allow_direct": True, "allow_atomic": True}
            await self.make_stream(name, subjects=[subjects], **{**usual, **settings})

    async def make_stream(self, name: str, **settings: Any) -> None:
        made = await self.api(f"STREAM.CREATE.{name}", {"name": name, **settings})
        assert "error" not in made, made

    async def stored(self, stream: str) -> list[tuple[str, dict[str, Any]]]:
        """Return the subject and the body of each message of a stream, in order."""
        state = (await self.api(f"STREAM.INFO.{stream}"))["state"]
        found: list[tuple[str, dict[str, Any]]] = []
        for sequence in range(state["first_seq"], state["last_seq"] + 1):
            message = await self.client.request(f"$JS.API.DIRECT.GET.{stream}", orjson.dumps({"seq": sequence}))
            headers = message.headers or {}
            if "Nats-Subject" in headers:
                found.append((headers["Nats-Subject"], orjson.loads(message.data)))
        return found

    async def announce(self, tenant: str, session_id: str, version: int, **fields: Any) -> None:
        """Publish one change of an event, as a worker does, until it is stored."""
        at = datetime.now(UTC)
        event = Event(event_id=f"e{version}", sequence=version, type="note", author="worker", at=at)
        change = Change(
            entity="event",
            operation="appended",
            tenant=tenant,
            namespace=session_id,
            version=version,
            value=event.model_dump(mode="json"),
            actor="worker",
            at=at,
        ).model_copy(update=fields)
        address = Address((session_id,))
        # Workers state the expected sequence of a change; here the server drops repeated messages by their id.
        headers = change_headers(change, address.tokens) | {MESSAGE_ID: new_id()}
        subject = change_subject(tenant, "event", address)
        await self.store(subject, change.model_dump_json().encode(), headers)

    async def store(self, subject: str, data: bytes, headers: dict[str, str] | None = None) -> None:
        async def stored() -> bool:
            try:
                ack = orjson.loads((await self.client.request(subject, data, timeout=1, headers=headers)).data)
            except (nats.errors.NoRespondersError, nats.errors.TimeoutError):
                return False
            assert "error" not in ack, ack
            return True

        await eventually(stored, f"{subject} is stored")

    async def bury(self, tenant: str, error: HiveError, **headers: str) -> None:
        """Publish a dead letter as a worker writes it."""
        await self.store(
            f"hive.dead.{tenant}.bot.sessions.append",
            b'{"session_id":"s1","event":{"type":"note"}}',
            {
                MESSAGE_ID: new_id(),
                CODE_HEADER: str(error.code),
                TEXT_HEADER: error.detail,
                DEAD_ERROR: orjson.dumps(error.body()).decode(),
                DEAD_SUBJECT: f"hive.in.{tenant}.bot.sessions.append.s1",
                DEAD_MESSAGE_ID: "m1",
                **headers,
            },
        )


async def join(url: str) -> Fleet:
    fleet = Fleet(Client())
    settings: dict[str, Any] = {"max_reconnect_attempts": -1, "reconnect_time_wait": 0.1}
    await fleet.client.connect(url, error_cb=fleet.heard_of, **settings)
    return fleet


async def eventually(holds: Callable[[], Awaitable[bool]] | Callable[[], bool], what: str) -> None:
    """Wait for a condition that no signal announces."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + DEADLINE_SECONDS
    while True:
        held = holds()
        if held if isinstance(held, bool) else await held:
            return
        assert loop.time() < deadline, f"never within {DEADLINE_SECONDS} s: {what}"
        await asyncio.sleep(POLL_SECONDS)
