"""Operations of the registry as methods: what a call checks, what it sends, and what `publish` learns from it."""

import inspect
from collections.abc import Callable, Collection, Coroutine, Mapping
from functools import partial, wraps
from typing import Any, Concatenate, Protocol, Self, TypeVar, cast, overload

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import MISSING as _MISSING

from hivemem.options import CallOptions
from hivemem_contracts.nearest_name import suggestion
from hivemem_contracts.operations import AnyOperation, Fields, Operation, ReplyT

ResultT = TypeVar("ResultT")
ResultT_co = TypeVar("ResultT_co", covariant=True)

MISSING: Any = _MISSING
"""The default of a field for which `None` is a value of its own. pydantic leaves it out of schemas and bodies."""


class Caller(Protocol):
    """The part of the client that a method needs."""

    @property
    def options(self) -> CallOptions: ...

    async def send(self, operation: Operation[..., Any, ReplyT], fields: dict[str, Any], /) -> ReplyT: ...


class ServiceMethods:
    """The operations of one service, bound to a client."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller

    async def _send(self, operation: Operation[..., Any, ReplyT], given: dict[str, Any]) -> ReplyT:
        """Send a request with those parameters of a method that differ from their defaults."""
        del given["self"]
        return await self.caller.send(operation, set_fields(operation, given))


def set_fields(operation: AnyOperation, given: dict[str, Any]) -> dict[str, Any]:
    """Return the fields to send. A field with its default is left out, which also older workers understand."""
    request: type[BaseModel] = operation.request
    if not getattr(request, "default_is_absent", False):
        return {name: value for name, value in given.items() if value is not MISSING}
    fields = request.model_fields
    return {name: value for name, value in given.items() if not _is_default(value, fields[name])}


def _is_default(value: object, field: FieldInfo) -> bool:
    """Return whether a field has its default; where the model builds one, it is `None` in the method."""
    if field.is_required():
        return False
    return value is None or (type(value) is type(field.default) and value == field.default)


class Command(Protocol[Fields, ResultT_co]):
    """A method that writes: call it, or pass it to `publish` with its fields."""

    @property
    def operation(self) -> AnyOperation: ...

    def __call__(self, *args: Fields.args, **kwargs: Fields.kwargs) -> Coroutine[Any, Any, ResultT_co]: ...


class CommandMethod(Protocol[Fields, ResultT_co]):
    """A method that writes, as its class declares it."""

    @overload
    def __get__(self, methods: None, kind: type, /) -> Self: ...
    @overload
    def __get__(self, methods: object, kind: type, /) -> Command[Fields, ResultT_co]: ...


Method = Callable[Concatenate[Any, Fields], Coroutine[Any, Any, ResultT]]
MethodT = TypeVar("MethodT", bound=Method[..., Any])
FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


def reads(operation: AnyOperation) -> Callable[[MethodT], MethodT]:
    """Declare a method that reads."""
    return partial(_declared, operation)


def writes(operation: AnyOperation) -> Callable[[Method[Fields, ResultT]], CommandMethod[Fields, ResultT]]:
    """Declare a method that writes."""

    def declare(method: Method[Fields, ResultT]) -> CommandMethod[Fields, ResultT]:
        return cast("CommandMethod[Fields, ResultT]", _declared(operation, method))

    return declare


def _declared(operation: AnyOperation, method: MethodT) -> MethodT:
    @wraps(method)
    async def checked(self: ServiceMethods, /, *args: object, **fields: object) -> object:
        check_arguments(operation, args, fields)
        return await method(self, **fields)

    vars(checked)["operation"] = operation
    return cast("MethodT", checked)


def check_arguments(operation: AnyOperation, args: Collection[object], fields: Mapping[str, object]) -> None:
    """Raise `TypeError` for positional arguments, for a lease in place of its claim, and for unknown fields with the
    nearest known one.

    Python refuses the first and the last as well, and before 3.13 without a suggestion.
    """
    if args:
        raise TypeError(f"{operation.full_name}() takes its fields by name, got {len(args)} positional")
    known = operation.request.model_fields
    for name in fields:
        if name not in known:
            raise TypeError(f"{operation.full_name}() has no field {name!r}{suggestion(name, known)}")
    if hasattr(type(fields.get("lease")), "claim"):
        raise TypeError(f"{operation.full_name}() takes the claim of a lease, lease=lease.claim")


def suggesting(method: FunctionT) -> FunctionT:
    """Declare a method that refuses unknown arguments with the nearest known one."""
    known = inspect.signature(method).parameters

    def check(given: Collection[str]) -> None:
        for name in given:
            if name not in known:
                raise TypeError(f"{method.__name__}() has no argument {name!r}{suggestion(name, known)}")

    if inspect.iscoroutinefunction(method):

        @wraps(method)
        async def awaited(*args: object, **given: object) -> object:
            check(given)
            return await method(*args, **given)

        return cast("FunctionT", awaited)

    @wraps(method)
    def called(*args: object, **given: object) -> object:
        check(given)
        return method(*args, **given)

    return cast("FunctionT", called)


def published(method: object) -> tuple[AnyOperation, CallOptions]:
    """Return the operation of a bound method, and the options of its client. Raises `TypeError` for anything else."""
    operation = getattr(method, "operation", None)
    methods = getattr(method, "__self__", None)
    if not isinstance(operation, Operation) or not isinstance(methods, ServiceMethods):
        raise TypeError(f"publish takes a method such as hive.memory.put, or the name of an operation, got {method!r}")
    return cast("AnyOperation", operation), methods.caller.options


def body_fields(body: BaseModel) -> bytes:
    """Return the JSON of a request body, with only the fields that the caller set."""
    return body.model_dump_json(exclude_unset=True, by_alias=True).encode()
