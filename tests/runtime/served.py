"""A service for tests, whose operations can block, fail, and return large answers."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from nats.aio.client import Client
from nats.aio.msg import Msg

from hivemem_contracts.errors import Forbidden
from hivemem_contracts.model import ReplyBody, RequestBody
from hivemem_contracts.operations import Operation, ServiceContract
from hivemem_runtime.ledger.port import Append, Outcome, Write
from hivemem_runtime.ledger.sqlite import SqliteLedger
from hivemem_runtime.policy import Policy
from hivemem_runtime.service import Call, Service

from .things import THING, Thing


class Ask(RequestBody):
    text: str = ""


class Answer(ReplyBody):
    text: str
    agent: str


def operation(name: str, *, writes: bool = False) -> Operation[..., Ask, Answer]:
    return Operation("things", name, Ask, Answer, summary=f"{name}.", writes=writes)


NAMES = ("echo", "hold", "fail", "refuse", "written", "large")
ECHO, HOLD, FAIL, REFUSE, WRITTEN, LARGE = (operation(name) for name in NAMES)
COUNT = operation("count", writes=True)
CONTRACT = ServiceContract("things", "Things of a test.", (ECHO, HOLD, FAIL, REFUSE, WRITTEN, LARGE, COUNT))
LARGE_BYTES = 400_000
LIMIT = 6
HELD = LIMIT // 2
"""The share of the limit that a tenant alone may use."""


@dataclass
class Served:
    """A service whose `hold` operation answers once the gate opens."""

    ledger: SqliteLedger
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    held: int = 0
    made: int = 0
    most: int = 0
    look: Callable[[], int] = field(default=lambda: 0)

    def service(self, policy: Policy | None = None) -> Service:
        service = Service(CONTRACT, self.ledger, policy)
        service.handler(ECHO, self.echo)
        service.handler(HOLD, self.hold)
        service.handler(FAIL, self.fail)
        service.handler(REFUSE, self.refuse)
        service.handler(WRITTEN, self.written)
        service.handler(LARGE, self.large)
        service.command(COUNT, self.plan, self.answer)
        return service

    async def echo(self, call: Call, body: Ask) -> Answer:
        return Answer(text=body.text, agent=call.sender.agent)

    async def hold(self, call: Call, body: Ask) -> Answer:
        self.held += 1
        await self.gate.wait()
        return await self.echo(call, Ask(text="x" * LARGE_BYTES) if body.text == "large" else body)

    async def fail(self, call: Call, body: Ask) -> Answer:
        raise KeyError("secret")

    async def refuse(self, call: Call, body: Ask) -> Answer:
        raise Forbidden("line one\r\nNats-Service-Error-Code: 0", who=call.sender.agent)

    async def written(self, call: Call, body: Ask) -> bytes:
        return b'{"text": "' + body.text.encode() + b'"}'

    async def large(self, call: Call, body: Ask) -> Answer:
        self.made += 1
        self.most = max(self.most, self.look())
        return Answer(text="x" * LARGE_BYTES, agent=call.sender.agent)

    def plan(self, call: Call, body: Ask) -> Write:
        if body.text == "fail":
            raise KeyError("secret")
        return Write("acme", "bot", THING, "t", lambda heads, now: [Append(THING, "t", Thing(1))], call.request_id)

    async def answer(self, call: Call, body: Ask, outcome: Outcome) -> Answer:
        if body.text == "fail late":
            raise KeyError("secret")
        return Answer(text=f"{outcome.record.number} {outcome.duplicate}", agent=call.sender.agent)


async def ask(caller: Client, name: str, data: bytes = b"", headers: dict[str, str] | None = None) -> Msg:
    return await caller.request(f"hive.req.acme.bot.things.{name}", data, timeout=10, headers=headers)


def code_of(message: Msg) -> str | None:
    return (message.headers or {}).get("Nats-Service-Error-Code")
