"""Calls that block, in threads."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

ParamsT = ParamSpec("ParamsT")
ResultT = TypeVar("ResultT")


async def to_the_end(call: Callable[ParamsT, ResultT], /, *args: ParamsT.args, **kwargs: ParamsT.kwargs) -> ResultT:
    """What the call returns or raises. A caller that is cancelled still waits for its end: nobody closes a file, or
    reads on in it, while a thread is at work on it."""
    running = asyncio.get_running_loop().run_in_executor(None, partial(call, *args, **kwargs))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        if not running.cancelled():
            running.exception()  # else nobody would have asked for it, and asyncio would say so
        raise
