"""A service: what it does for each operation of its contract, whichever way the request came in."""

from asyncio import Future
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final, Generic

import orjson
from pydantic import BaseModel

from hivemem_contracts.errors import HiveError, InvalidRequest
from hivemem_contracts.limits import ID_CHARACTERS
from hivemem_contracts.model import RequestBody, decode_body
from hivemem_contracts.operations import AnyOperation, Fields, Operation, ReplyT, RequestT, ServiceContract
from hivemem_contracts.streams import MESSAGE_ID
from hivemem_contracts.subjects import Sender
from hivemem_runtime.ledger.entity import AnyEntity
from hivemem_runtime.ledger.port import Decision, Heads, Ledger, Outcome, RequestId, Write

DIGEST_BYTES: Final = 8
"""Enough to tell two commands of one agent apart, and not more than each row has to pay for."""


@dataclass(slots=True)
class Call:
    """One request or durable command: who asks, for what, under which id."""

    sender: Sender
    operation: AnyOperation
    message_id: str
    traceparent: str | None = None
    route: str | None = None
    published_at: int | None = None
    """When the bus stored a durable command, in microseconds since 1970; None for a request."""
    digest: bytes | None = None
    """Of the body of a write, once that is decoded."""

    @property
    def request_name(self) -> str:
        """The message id in the scope where it is unique: nobody else's retry can be mistaken for this one."""
        return f"{self.operation.full_name}|{self.sender.agent}|{self.message_id}"

    @property
    def request_id(self) -> RequestId:
        """The message id in its scope, with the digest of the body."""
        return RequestId(self.request_name, self.digest)

    def note(self, entity: AnyEntity, id: str) -> Write:
        """A write that does nothing but take the message id, for an operation without one commit that could."""
        return Write(self.sender.tenant, self.sender.agent, entity, id, lambda heads, now: [], self.request_id)


class _Unused(Exception):
    """Nothing was done under this message id yet."""


async def require_unused(ledger: Ledger, call: Call, entity: AnyEntity, id: str) -> None:
    """Raise `IdempotencyConflict` now where a commit under the call's message id would raise it later. Nothing is
    remembered by this."""

    def decide(heads: Heads, now: int) -> Decision:
        raise _Unused

    with suppress(_Unused):
        await ledger.commit(Write(call.sender.tenant, call.sender.agent, entity, id, decide, call.request_id))


Plan = Callable[[Call, RequestT], Write]
"""The single commit that an operation is. Synchronous, so that commands can be queued in order without waiting."""

Answer = Callable[[Call, RequestT, Outcome], Awaitable[ReplyT] | ReplyT]
"""What is answered after the commit; awaited only where the answer has to be read from somewhere."""

Handle = Callable[[Call, RequestT], Awaitable[ReplyT | bytes]]
"""All that an operation does. `bytes` are the JSON of the reply: what is read as often as a memory, or a thousand at a
time, is written several times as fast without a model in between."""


Refused = Callable[[Call, BaseModel | bytes, HiveError], Awaitable[None]]
"""What is done about a refused write, given its body, or the bytes of what is none."""

Answered = Callable[[Call, RequestT, ReplyT | bytes], Awaitable[None]]
"""What is done about an answer, a model or its JSON, before it is sent."""


@dataclass(frozen=True, slots=True)
class Command(Generic[RequestT, ReplyT]):
    """An operation that is one commit and an answer read from its outcome."""

    plan: Plan[RequestT]
    answer: Answer[RequestT, ReplyT]


def body_digest(body: RequestBody) -> bytes:
    """A digest that is the same for two bodies that ask for the same, however a client wrote them: in any order of the
    fields, with defaults or without."""
    absent = body.default_is_absent
    fields = body.__pydantic_serializer__.to_python(
        body, mode="json", by_alias=True, exclude_defaults=absent, exclude_unset=not absent
    )
    return blake2b(orjson.dumps(fields, option=orjson.OPT_SORT_KEYS), digest_size=DIGEST_BYTES).digest()


class Service:
    """Binds each operation of a contract to what the worker does for it, and runs it."""

    def __init__(self, contract: ServiceContract, ledger: Ledger) -> None:
        self.contract = contract
        self.ledger = ledger
        self._commands: dict[str, Command[Any, Any]] = {}
        self._handlers: dict[str, Handle[Any, Any]] = {}
        self._refused: Refused | None = None
        self._answered: dict[str, Answered[Any, Any]] = {}

    def command(
        self,
        operation: Operation[Fields, RequestT, ReplyT],
        plan: Plan[RequestT],
        answer: Answer[RequestT, ReplyT],
    ) -> None:
        """Bind an operation that is a single commit."""
        self._bind(operation)
        self._commands[operation.name] = Command(plan, answer)

    def handler(self, operation: Operation[Fields, RequestT, ReplyT], handle: Handle[RequestT, ReplyT]) -> None:
        """Bind an operation that reads, or that takes more than one step."""
        self._bind(operation)
        self._handlers[operation.name] = handle

    def on_refused(self, hook: Refused) -> None:
        """Await `hook` before the refusal of a write is answered, or its dead letter is stored; not for what may pass.

        Where the hook fails, its own error is what the caller hears, and a command is tried again.
        """
        assert self._refused is None, "one is enough"
        self._refused = hook

    def on_answered(self, operation: Operation[Fields, RequestT, ReplyT], hook: Answered[RequestT, ReplyT]) -> None:
        """Await `hook` before an answer of this operation is sent, or a command that would have it is settled."""
        self._answered[operation.name] = hook

    def _bind(self, operation: AnyOperation) -> None:
        if self.contract.get(operation.name) is not operation:
            raise ValueError(f"{operation!r} does not belong to service {self.contract.name}")
        if operation.name in self._commands or operation.name in self._handlers:
            raise ValueError(f"{operation!r} is bound twice")

    def unbound(self) -> list[AnyOperation]:
        """Operations of the contract that nothing serves; a worker refuses to start with any."""
        return [op for op in self.contract if op.name not in self._commands and op.name not in self._handlers]

    def decode(self, call: Call, data: bytes) -> BaseModel:
        """The validated body; a durable command's route and its body must name the same thing. From here on the call
        knows the digest of its body."""
        if len(call.message_id) > ID_CHARACTERS:
            raise InvalidRequest(f"{MESSAGE_ID}: over {ID_CHARACTERS} characters", field=MESSAGE_ID)
        body = self._routed(call, decode_body(call.operation.request, data))
        if call.operation.writes:
            call.digest = body_digest(body)
        return body

    def _routed(self, call: Call, body: RequestBody) -> RequestBody:
        field = call.operation.route
        if call.route is None or field is None:
            return body
        named = getattr(body, field)
        if named is None:
            return body.model_copy(update={field: call.route})
        if named != call.route:
            raise InvalidRequest(
                f"{field}: the body says {named!r}, the subject's route says {call.route!r}", field=field
            )
        return body

    def plan(self, call: Call, body: BaseModel) -> Write | None:
        """The write of an operation that is a single commit; None for one that takes more steps."""
        command = self._commands.get(call.operation.name)
        return command.plan(call, body) if command else None

    async def run(self, call: Call, body: BaseModel) -> BaseModel | bytes:
        """Do what was asked and answer it. Raises a `HiveError` for what was refused."""
        command = self._commands.get(call.operation.name)
        if command is None:
            handled = self._handlers[call.operation.name](call, body)
            return await (self._looked_at(call, body, handled) if self.looks_at_answers(call.operation) else handled)
        return await self.finish(call, body, self.ledger.commit(command.plan(call, body)))

    async def finish(self, call: Call, body: BaseModel, outcome: Future[Outcome]) -> BaseModel | bytes:
        """The answer of an operation that had a plan, once that is committed."""
        answer = self.answer(call, body, await outcome)
        return answer if isinstance(answer, BaseModel) else await answer

    def answer(self, call: Call, body: BaseModel, outcome: Outcome) -> Awaitable[BaseModel | bytes] | BaseModel:
        """The answer of an operation that had a plan."""
        answer: Awaitable[BaseModel] | BaseModel = self._commands[call.operation.name].answer(call, body, outcome)
        return self._looked_at(call, body, answer) if self.looks_at_answers(call.operation) else answer

    def looks_at_answers(self, operation: AnyOperation) -> bool:
        return operation.name in self._answered

    async def _looked_at(
        self, call: Call, body: BaseModel, answer: Awaitable[BaseModel | bytes] | BaseModel
    ) -> BaseModel | bytes:
        reply = answer if isinstance(answer, BaseModel) else await answer
        await self._answered[call.operation.name](call, body, reply)
        return reply

    def looks_at_refusal(self, call: Call, error: HiveError) -> bool:
        return self._refused is not None and call.operation.writes and not error.retryable

    async def refused(self, call: Call, body: BaseModel | bytes, error: HiveError) -> None:
        """To be awaited before a refusal that `looks_at_refusal` is told to anybody."""
        if self._refused is not None:
            await self._refused(call, body, error)
