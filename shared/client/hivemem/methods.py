"""Operations of the registry as typed methods: the fields and the reply of each are those of its declaration."""

from typing import Any, Generic, Protocol, Self, overload

from pydantic import BaseModel

from hivemem.options import CallOptions
from hivemem_contracts.operations import Fields, Operation, ReplyT, RequestT


class Caller(Protocol):
    """What a bound method needs of the client."""

    @property
    def options(self) -> CallOptions: ...

    async def send(self, operation: Operation[..., Any, ReplyT], fields: dict[str, Any], /) -> ReplyT: ...


class ServiceMethods:
    """The operations of one service, bound to a client."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller


class BoundQuery(Generic[Fields, RequestT, ReplyT]):
    """An operation of one client. Awaiting a call of it sends the request and answers the reply."""

    __slots__ = ("_caller", "operation")

    def __init__(self, operation: Operation[Fields, RequestT, ReplyT], caller: Caller) -> None:
        self.operation = operation
        self._caller = caller

    async def __call__(self, *args: Fields.args, **kwargs: Fields.kwargs) -> ReplyT:
        assert not args, "fields are given by name"
        return await self._caller.send(self.operation, kwargs)

    def __repr__(self) -> str:
        return f"<{self.operation.full_name}: {self.operation.summary}>"


class BoundCommand(BoundQuery[Fields, RequestT, ReplyT]):
    """An operation that writes: it can be requested, or published as a durable command."""

    __slots__ = ()

    @property
    def message_id(self) -> str | None:
        """The one that the client's copy was given, if it was."""
        return self._caller.options.message_id


class Query(Generic[Fields, RequestT, ReplyT]):
    """Declares an operation that reads as a method of its service."""

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
    """Declares an operation that writes as a method of its service."""

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
    """The JSON of a request body with what its caller set, and nothing else."""
    return body.model_dump_json(exclude_unset=True, by_alias=True).encode()
