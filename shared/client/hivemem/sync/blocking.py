"""Methods of the asynchronous client as methods that wait: with the same parameters and the same documentation."""

import asyncio
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterable, Iterator
from contextlib import suppress
from functools import wraps
from types import FunctionType, GenericAlias
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar, cast, get_args, overload

from hivemem.connection import ClientClosed
from hivemem.methods import CommandMethod
from hivemem.sync.loop_thread import LoopThread
from hivemem_contracts.operations import AnyOperation

Fields = ParamSpec("Fields")
ResultT = TypeVar("ResultT")
ResultT_co = TypeVar("ResultT_co", covariant=True)
WrappedT = TypeVar("WrappedT")


class Blocking(Generic[WrappedT]):
    """The synchronous form of an object: its methods run in the client's thread.

    `wrapped` is the asynchronous object, which is used in that thread alone. Errors of Python name the class as users
    know it: `sync.Hive`.
    """

    def __init_subclass__(cls) -> None:
        own = cls.__qualname__
        cls.__name__ = f"sync.{own.removeprefix('Blocking')}"
        for member in vars(cls).values():
            if isinstance(member, FunctionType):
                for function in (member, inspect.unwrap(member)):
                    function.__qualname__ = function.__qualname__.replace(own, cls.__name__)

    def __init__(self, wrapped: WrappedT, thread: LoopThread) -> None:
        self.wrapped = wrapped
        self.thread = thread

    def asynchronous_method(self, name: str) -> Any:
        """Return the method of this name of the asynchronous object."""
        return getattr(self.wrapped, name)


class BlockingCommand(Protocol[Fields, ResultT_co]):
    """A method that writes: call it, or pass it to `publish` with its fields."""

    @property
    def operation(self) -> AnyOperation: ...

    def __call__(self, *args: Fields.args, **kwargs: Fields.kwargs) -> ResultT_co: ...


class BlockingCommandMethod(Protocol[Fields, ResultT_co]):
    """A method that writes, as its class declares it."""

    @overload
    def __get__(self, methods: None, kind: type, /) -> Self: ...
    @overload
    def __get__(self, methods: object, kind: type, /) -> BlockingCommand[Fields, ResultT_co]: ...


def blocking(
    method: Callable[Concatenate[Any, Fields], Coroutine[Any, Any, ResultT]],
) -> Callable[Concatenate[Any, Fields], ResultT]:
    """Return a method that waits for the result of an asynchronous one."""

    @wraps(method)
    def wait(self: Blocking[Any], /, *args: Fields.args, **fields: Fields.kwargs) -> ResultT:
        return self.thread.run(method(self.wrapped, *args, **fields))

    return wait


def blocking_command(method: CommandMethod[Fields, ResultT]) -> BlockingCommandMethod[Fields, ResultT]:
    """Return a method that waits for the result of an asynchronous one, and can be published."""
    return cast("BlockingCommandMethod[Fields, ResultT]", blocking(cast("Any", method)))


def threaded(
    method: Callable[Concatenate[Any, Fields], ResultT],
) -> Callable[Concatenate[Any, Fields], ResultT]:
    """Return a method that calls a plain one in the client's thread, because it starts tasks there."""

    @wraps(method)
    def call(self: Blocking[Any], /, *args: Fields.args, **fields: Fields.kwargs) -> ResultT:
        async def called() -> ResultT:
            return method(self.wrapped, *args, **fields)

        return self.thread.run(called())

    return call


def iterating(
    method: Callable[Concatenate[Any, Fields], AsyncIterator[ResultT]],
) -> Callable[Concatenate[Any, Fields], Iterator[ResultT]]:
    """Return a method that iterates over the results of an asynchronous one."""

    @wraps(method)
    def iterate(self: Blocking[Any], /, *args: Fields.args, **fields: Fields.kwargs) -> Iterator[ResultT]:
        return iterated(method(self.wrapped, *args, **fields), self.thread)

    signature = inspect.signature(method)
    result = GenericAlias(Iterator, get_args(signature.return_annotation))
    iterate.__annotations__ = {**iterate.__annotations__, "return": result}
    vars(iterate)["__signature__"] = signature.replace(return_annotation=result)
    return iterate


def iterated(items: AsyncIterator[ResultT], thread: LoopThread) -> Iterator[ResultT]:
    """Yield the items of an asynchronous iterator, which is closed at the end, or when the loop over them is left."""
    try:
        while True:
            try:
                yield thread.run(_next(items))
            except StopAsyncIteration:
                return
    finally:
        # The collector may come by in the thread itself, whose event loop then closes the iterator at its end.
        if isinstance(items, AsyncGenerator) and not thread.is_current:
            with suppress(ClientClosed):
                thread.run(_close(cast("AsyncGenerator[ResultT, None]", items)))


async def asynchronous(items: Iterable[ResultT]) -> AsyncIterator[ResultT]:
    """Yield the items of an iterable, which is read in other threads."""
    found = iter(items)
    end = object()
    while (item := await asyncio.to_thread(next, found, end)) is not end:
        yield cast("ResultT", item)


async def _close(items: AsyncGenerator[Any, None]) -> None:
    await items.aclose()


async def _next(items: AsyncIterator[ResultT]) -> ResultT:
    return await anext(items)


def wrapped_method(method: object) -> Any:
    """Return the asynchronous method behind a bound one, for `publish`; anything else is returned as it is."""
    owner = getattr(method, "__self__", None)
    return owner.asynchronous_method(cast("Any", method).__name__) if isinstance(owner, Blocking) else method
