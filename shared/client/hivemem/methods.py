"""Operations of the registry as typed methods, with the fields and the reply of their declarations."""

from typing import Any, Generic, Protocol, Self, overload

from pydantic import BaseModel

from hivemem.options import CallOptions
from hivemem_contracts.operations import Fields, Operation, ReplyT, RequestT


class Caller(Protocol):
    """The part of the client that a bound method needs."""

    @property
    def options(self) -> CallOptions: ...

    async def send(self, operation: Operation[..., Any, ReplyT], fields: dict[str, Any], /) -> ReplyT: ...


class ServiceMethods:
    """The operations of one service, bound to a client."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller


class BoundQuery(Generic[Fields, RequestT, ReplyT]):
    """An operation of one client. Awaiting a call sends the request and returns the reply."""

    __slots__ = ("_caller", "operation")

    def __init__(self, operation: Operation[Fields, RequestT, ReplyT], caller: Caller) -> None:
        self.operation = operation
        self._caller = caller

    async def __call__(self, *args: Fields.args, **kwargs: Fields.kwargs) -> ReplyT:
        assert not args, "pass fields by name"
        return await self._caller.send(self.operation, kwargs)

    def __repr__(self) -> str:
        return f"<{self.operation.full_name}: {self.operation.summary}>"


class BoundCommand(BoundQuery[Fields, RequestT, ReplyT]):
    """An operation that writes: it can be requested, or published as a durable command."""

    __slots__ = ()

    @property
    def message_id(self) -> str | None:
        """The message id of the client's copy, if set."""
        return self._caller.options.message_id


class Query(Generic[Fields, RequestT, ReplyT]):
    """Declares a read operation as a method of its service."""

    def __init__(self, operation: Operation[Fields, RequestT, ReplyT]) -> None:
        self.operation = operation
        self.__doc__ = operation.summary

    @overload
    def __get__(self, methods: None, kind: type[ServiceMethods]) -> Self: ...
    @overload
    def __get__(self, methods: ServiceMethods, kind: type[ServiceMethods]) -> BoundQuery[Fields, RequestT, ReplyT]: ...
    def __get__(
        self, methods: ServiceMethods | None, kind: type[ServiceMethods]
    ) -> Self | BoundQuery[Fields, RequestT, ReplyT]:
        return self if methods is None else BoundQuery(self.operation, methods.caller)


class Command(Generic[Fields, RequestT, ReplyT]):
    """Declares a write operation as a method of its service."""

    def __init__(self, operation: Operation[Fields, RequestT, ReplyT]) -> None:
        self.operation = operation
        self.__doc__ = operation.summary

    @overload
    def __get__(self, methods: None, kind: type[ServiceMethods]) -> Self: ...
    @overload
    def __get__(
        self, methods: ServiceMethods, kind: type[ServiceMethods]
    ) -> BoundCommand[Fields, RequestT, ReplyT]: ...
    def __get__(
        self, methods: ServiceMethods | None, kind: type[ServiceMethods]
    ) -> Self | BoundCommand[Fields, RequestT, ReplyT]:
        return self if methods is None else BoundCommand(self.operation, methods.caller)


def body_fields(body: BaseModel) -> bytes:
    """Return the JSON of a request body, with only the fields that the caller set."""
    return body.model_dump_json(exclude_unset=True, by_alias=True).encode()
