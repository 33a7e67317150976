"""Runs blocking calls in threads."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

ParamsT = ParamSpec("ParamsT")
ResultT = TypeVar("ResultT")


async def to_the_end(call: Callable[ParamsT, ResultT], /, *args: ParamsT.args, **kwargs: ParamsT.kwargs) -> ResultT:
    """Run a blocking call in a thread. A cancelled caller still waits for its end, so that nobody closes or reads a
    file while a thread uses it."""
    running = asyncio.get_running_loop().run_in_executor(None, partial(call, *args, **kwargs))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        if not running.cancelled():
            running.exception()  # else nobody would have asked for it, and asyncio would say so
        raise
