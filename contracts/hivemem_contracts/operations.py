"""The registry of operations: each is declared once, and everything else about it is derived from that.

From one declaration come the worker's endpoint, the client's typed method, the durable command, the command-line
help, the AsyncAPI document and the JSON Schemas.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final, Generic, ParamSpec, TypeVar, cast

from pydantic import BaseModel

from hivemem_contracts.errors import (
    Forbidden,
    HiveError,
    IdempotencyConflict,
    Internal,
    InvalidRequest,
    Overloaded,
    TooLarge,
    Unavailable,
)

Fields = ParamSpec("Fields")
RequestT = TypeVar("RequestT", bound=BaseModel)
ReplyT = TypeVar("ReplyT", bound=BaseModel)

COMMON_ERRORS: Final[tuple[type[HiveError], ...]] = (
    InvalidRequest,
    Forbidden,
    TooLarge,
    Overloaded,
    Internal,
    Unavailable,
)
"""The errors of every operation."""
WRITE_ERRORS: Final[tuple[type[HiveError], ...]] = (*COMMON_ERRORS, IdempotencyConflict)
"""The errors of every operation that writes."""


class Operation(Generic[Fields, RequestT, ReplyT]):
    """One operation of a service.

    `route` names the request field that puts durable commands in order; an operation that writes without one is ordered
    by the route that its publisher chose. An operation that is useless without its answer is not `durable`: it can only
    be requested. `errors` are the operation's own errors: any operation can also answer `COMMON_ERRORS`, and one that
    writes `WRITE_ERRORS`.
    """

    __slots__ = ("durable", "errors", "name", "reply", "request", "route", "service", "summary", "writes")

    def __init__(
        self,
        service: str,
        name: str,
        request: Callable[Fields, RequestT],
        reply: type[ReplyT],
        *,
        summary: str,
        writes: bool = False,
        durable: bool = True,
        route: str | None = None,
        errors: tuple[type[HiveError], ...] = (),
    ) -> None:
        self.service = service
        self.name = name
        self.request = cast("type[RequestT]", request)
        self.reply = reply
        self.summary = summary
        self.writes = writes
        self.durable = writes and durable
        self.route = route
        self.errors = errors

    @property
    def full_name(self) -> str:
        return f"{self.service}.{self.name}"

    def __repr__(self) -> str:
        return f"<Operation {self.full_name}>"


AnyOperation = Operation[..., Any, Any]


class ServiceContract:
    """The operations of one service, by name. `aliases` are other service names in subjects, by which some of them can
    be requested as well."""

    def __init__(
        self,
        name: str,
        summary: str,
        operations: tuple[AnyOperation, ...],
        *,
        aliases: Mapping[str, Collection[AnyOperation]] | None = None,
    ) -> None:
        self.name = name
        self.summary = summary
        self._aliases = aliases or {}
        self._operations = {operation.name: operation for operation in operations}
        if len(self._operations) != len(operations):
            raise ValueError(f"service {name}: an operation is declared twice")
        for operation in operations:
            if operation.service != name:
                raise ValueError(f"{operation!r} does not belong to service {name}")

    def names_of(self, operation: AnyOperation) -> list[str]:
        """Return the names of the service by which an operation can be requested, its own first."""
        return [self.name, *(alias for alias, operations in self._aliases.items() if operation in operations)]

    def __iter__(self) -> Iterator[AnyOperation]:
        return iter(self._operations.values())

    def __getitem__(self, name: str) -> AnyOperation:
        return self._operations[name]

    def get(self, name: str) -> AnyOperation | None:
        return self._operations.get(name)
