"""The event loop: uvloop where it can be had, which takes a good part off what the bus costs a worker."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

ResultT = TypeVar("ResultT")


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop  # Windows has none
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop


def run(main: Coroutine[Any, Any, ResultT]) -> ResultT:
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(main)
