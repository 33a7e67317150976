"""A service: what it does for each operation of its contract, whichever way the request came in."""

from asyncio import Future
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final, Generic, NamedTuple

import orjson
from pydantic import BaseModel

from hivemem_contracts.errors import HiveError, InvalidRequest
from hivemem_contracts.limits import ID_CHARACTERS
from hivemem_contracts.model import RequestBody, decode_body
from hivemem_contracts.operations import AnyOperation, Fields, Operation, ReplyT, RequestT, ServiceContract
from hivemem_contracts.streams import MESSAGE_ID
from hivemem_contracts.subjects import Sender
from hivemem_runtime.ledger.entity import AnyEntity
from hivemem_runtime.ledger.port import Decide, Decision, Heads, Ledger, Outcome, Reads, RequestId, Write
from hivemem_runtime.policy import Policy

DIGEST_BYTES: Final = 8
"""Enough to tell two commands of one agent apart, and not more than each row has to pay for."""


@dataclass(slots=True)
class Call:
    """One request or durable command: its sender, operation, message id and body."""

    sender: Sender
    operation: AnyOperation
    message_id: str
    traceparent: str | None = None
    route: str | None = None
    published_at: int | None = None
    """When the bus stored a durable command, in microseconds since 1970; None for a request."""
    digest: bytes | None = None
    """The digest of a write's body, once that is decoded."""
    body: BaseModel | bytes = b""
    """The validated body. Before that, and where the body is invalid, the bytes as they came."""

    @property
    def request_name(self) -> str:
        """The message id in the scope where it is unique: nobody else's retry can be mistaken for this one."""
        return f"{self.operation.full_name}|{self.sender.agent}|{self.message_id}"

    @property
    def request_id(self) -> RequestId:
        """The message id in its scope, with the digest of the body."""
        return RequestId(self.request_name, self.digest)

    def write(self, entity: AnyEntity, id: str, decide: Decide, reads: Reads = ()) -> Write:
        """Return the write that is all of this call. It takes the call's message id: the same call again does nothing
        and hears the first outcome."""
        return self.step(entity, id, decide, reads, request_id=self.request_id)

    def step(
        self,
        entity: AnyEntity,
        id: str,
        decide: Decide,
        reads: Reads = (),
        *,
        request_id: RequestId | None = None,
        once: str | None = None,
        answered_by: str | None = None,
        part_of: RequestId | None = None,
    ) -> Write:
        """Return one of several writes of this call. It is repeated with the call, unless it has an identity of its own
        (see `Write`)."""
        sender = self.sender
        return Write(
            sender.tenant,
            sender.agent,
            entity,
            id,
            decide,
            request_id,
            once,
            self.message_id,
            self.traceparent,
            reads,
            answered_by,
            part_of,
        )

    def note(self, entity: AnyEntity, id: str) -> Write:
        """Return a write that only takes the message id, for an operation without one commit that could."""
        return self.write(entity, id, lambda heads, now: ())


class _Unused(Exception):
    """Nothing was done under this message id yet."""


async def earlier_outcome(ledger: Ledger, call: Call, entity: AnyEntity, id: str) -> Outcome | None:
    """Return what an earlier commit under the call's message id came to, None if there was none. Raise
    `IdempotencyConflict` now where a commit would raise it later. Nothing is remembered by this."""

    def decide(heads: Heads, now: int) -> Decision:
        raise _Unused

    with suppress(_Unused):
        return await ledger.commit(call.write(entity, id, decide))
    return None


Plan = Callable[[Call, RequestT], Write]
"""The single commit that an operation is. Synchronous, so that commands can be queued in order without waiting."""

Answer = Callable[[Call, RequestT, Outcome], Awaitable[ReplyT] | ReplyT]
"""Makes the answer after the commit; awaited only if the answer has to be read from somewhere."""

Handle = Callable[[Call, RequestT], Awaitable[ReplyT | bytes]]
"""All that an operation does. `bytes` are the JSON of the reply: what is read as often as a memory, or a thousand at a
time, is written several times as fast without a model in between."""

Refused = Callable[[Call, HiveError], Awaitable[None]]
"""Called for a refused write."""


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


class Begun(NamedTuple):
    """A call that is a single commit, under way."""

    write: Write
    commit: Future[Outcome]


class Service:
    """Binds the operations of a contract to functions of the worker, and runs them."""

    def __init__(self, contract: ServiceContract, ledger: Ledger, policy: Policy | None = None) -> None:
        self.contract = contract
        self.ledger = ledger
        self.policy = policy or Policy()
        self._commands: dict[str, Command[Any, Any]] = {}
        self._handlers: dict[str, Handle[Any, Any]] = {}
        self._refused: Refused | None = None

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
        """Await `hook` before the refusal of a write is answered, or its dead letter is stored, unless the refusal is
        retryable.

        Where the hook fails, its own error is what the caller hears, and a command is tried again.
        """
        assert self._refused is None, "one is enough"
        self._refused = hook

    def _bind(self, operation: AnyOperation) -> None:
        if self.contract.get(operation.name) is not operation:
            raise ValueError(f"{operation!r} does not belong to service {self.contract.name}")
        if operation.name in self._commands or operation.name in self._handlers:
            raise ValueError(f"{operation!r} is bound twice")

    def unbound(self) -> list[AnyOperation]:
        """Return operations of the contract that nothing serves; a worker refuses to start with any."""
        return [op for op in self.contract if op.name not in self._commands and op.name not in self._handlers]

    def begin(self, call: Call, data: bytes) -> Begun | None:
        """Begin a call: decode its body, ask the policy, and commit it if it is a single commit; `answer` follows that.

        Return None for a call that takes more steps, which `run` carries out. Raises a `HiveError` for a refusal.
        """
        call.body = data
        body = call.body = self._decode(call, data)
        self.policy.permit(call)
        command = self._commands.get(call.operation.name)
        if command is None:
            return None
        write = command.plan(call, body)
        return Begun(write, self.ledger.commit(write))

    def answer(self, call: Call, outcome: Outcome) -> Awaitable[BaseModel] | BaseModel:
        """Return the answer of a call that was a single commit."""
        answer: Awaitable[BaseModel] | BaseModel = self._commands[call.operation.name].answer(call, call.body, outcome)
        return answer

    def run(self, call: Call) -> Awaitable[BaseModel | bytes]:
        """Carry out a call of several steps. Raises a `HiveError` for a refusal."""
        return self._handlers[call.operation.name](call, call.body)

    def looks_at_refusal(self, call: Call, error: HiveError) -> bool:
        """Return whether `refused` has to be awaited before anybody hears of this error."""
        return self._refused is not None and call.operation.writes and not error.retryable

    async def refused(self, call: Call, error: HiveError) -> None:
        """Have a refusal looked at by the hook."""
        if self._refused is not None:
            await self._refused(call, error)

    def _decode(self, call: Call, data: bytes) -> RequestBody:
        """Return the validated body. From here on the call knows the digest of its body."""
        if len(call.message_id) > ID_CHARACTERS:
            raise InvalidRequest(f"{MESSAGE_ID}: over {ID_CHARACTERS} characters", field=MESSAGE_ID)
        body = _routed(call, decode_body(call.operation.request, data))
        if call.operation.writes:
            call.digest = body_digest(body)
        return body


def _routed(call: Call, body: RequestBody) -> RequestBody:
    """Return the body with the route of a durable command filled in. Raises `InvalidRequest` where the two disagree."""
    field = call.operation.route
    if call.route is None or field is None:
        return body
    named = getattr(body, field)
    if named is None:
        return body.model_copy(update={field: call.route})
    if named != call.route:
        raise InvalidRequest(f"{field}: the body says {named!r}, the subject's route says {call.route!r}", field=field)
    return body
