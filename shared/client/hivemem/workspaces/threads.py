"""Blocking work of snapshots and restores, which ends early when its caller is cancelled."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from threading import Event
from typing import TypeVar

ResultT = TypeVar("ResultT")


async def stoppable(call: Callable[[Event], ResultT]) -> ResultT:
    """Run a call in a thread with an event that is set if the caller is cancelled. A cancelled caller waits for the
    end of the call."""
    stop = Event()
    running = asyncio.get_running_loop().run_in_executor(None, call, stop)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        stop.set()
        await asyncio.wait([running])
        if not running.cancelled():
            running.exception()  # else nobody would have asked for it, and asyncio would say so
        raise


@asynccontextmanager
async def first_error() -> AsyncGenerator[None]:
    """Raise the first error of a group of tasks alone."""
    try:
        yield
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None
