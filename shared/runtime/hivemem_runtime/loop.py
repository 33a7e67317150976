"""The event loop: uvloop where the extra `fast` brought it, and that of asyncio elsewhere."""

import asyncio
import gc
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

YOUNG_OBJECTS: Final = 20_000
"""Python collects cycles when this many new objects are alive. Its default of 700 is a few requests under way, and
collecting took a tenth of a busy worker's time."""

ResultT = TypeVar("ResultT")


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop


def settle() -> None:
    """To be called once everything is loaded: what is there now stays, and need not be looked through again."""
    gc.collect()
    gc.freeze()


def run(main: Coroutine[Any, Any, ResultT]) -> ResultT:
    gc.set_threshold(YOUNG_OBJECTS, 20, 20)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(main)
