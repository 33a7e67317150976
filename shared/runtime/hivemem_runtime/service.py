"""A service: what it does for each operation of its contract, whichever way the request came in."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic

from pydantic import BaseModel

from hivemem_contracts.errors import InvalidRequest
from hivemem_contracts.model import decode_body
from hivemem_contracts.operations import AnyOperation, Fields, Operation, ReplyT, RequestT, ServiceContract
from hivemem_contracts.subjects import Sender
from hivemem_runtime.ledger.port import Ledger, Outcome, Write


@dataclass(frozen=True, slots=True)
class Call:
    """One request or durable command: who asks, for what, under which id."""

    sender: Sender
    operation: AnyOperation
    message_id: str
    traceparent: str | None = None
    route: str | None = None

    @property
    def request_id(self) -> str:
        """The message id in the scope where it is unique: nobody else's retry can be mistaken for this one."""
        return f"{self.operation.full_name}|{self.sender.agent}|{self.message_id}"


Plan = Callable[[Call, RequestT], Write]
"""The single commit that an operation is. Synchronous, so that commands can be queued in order without waiting."""

Answer = Callable[[Call, RequestT, Outcome], Awaitable[ReplyT] | ReplyT]
"""What is answered after the commit; awaited only where the answer has to be read from somewhere."""

Handle = Callable[[Call, RequestT], Awaitable[ReplyT]]


@dataclass(frozen=True, slots=True)
class Command(Generic[RequestT, ReplyT]):
    """An operation that is one commit and an answer read from its outcome."""

    plan: Plan[RequestT]
    answer: Answer[RequestT, ReplyT]


class Service:
    """Binds each operation of a contract to what the worker does for it, and runs it."""

    def __init__(self, contract: ServiceContract, ledger: Ledger) -> None:
        self.contract = contract
        self.ledger = ledger
        self._commands: dict[str, Command[Any, Any]] = {}
        self._handlers: dict[str, Handle[Any, Any]] = {}

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

    def _bind(self, operation: AnyOperation) -> None:
        if self.contract.get(operation.name) is not operation:
            raise ValueError(f"{operation!r} does not belong to service {self.contract.name}")
        if operation.name in self._commands or operation.name in self._handlers:
            raise ValueError(f"{operation!r} is bound twice")

    def unbound(self) -> list[AnyOperation]:
        """Operations of the contract that nothing serves; a worker refuses to start with any."""
        return [op for op in self.contract if op.name not in self._commands and op.name not in self._handlers]

    def decode(self, call: Call, data: bytes) -> BaseModel:
        """The validated body; a durable command's route and its body must name the same thing."""
        body: BaseModel = decode_body(call.operation.request, data)
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

    async def run(self, call: Call, body: BaseModel) -> BaseModel:
        """Do what was asked and answer it. Raises a `HiveError` for what was refused."""
        command = self._commands.get(call.operation.name)
        reply: BaseModel
        if command is None:
            reply = await self._handlers[call.operation.name](call, body)
        else:
            outcome = await self.ledger.commit(command.plan(call, body))
            answer = self.answer(call, body, outcome)
            reply = answer if isinstance(answer, BaseModel) else await answer
        return reply

    def answer(self, call: Call, body: BaseModel, outcome: Outcome) -> Awaitable[BaseModel] | BaseModel:
        """The answer of an operation that had a plan."""
        answer: Awaitable[BaseModel] | BaseModel = self._commands[call.operation.name].answer(call, body, outcome)
        return answer
