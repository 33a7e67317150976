"""Long computations that let the event loop go on meanwhile."""

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

INLINE_CHARACTERS: Final = 3_000
"""The longest text that is processed on the event loop; a longer one takes more than a turn."""

TURN_SECONDS: Final = 0.005

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


async def offloaded(characters: int, act: Callable[[], ResultT]) -> ResultT:
    """Return the result of `act`, which runs in a thread if it works on a long text."""
    return act() if characters <= INLINE_CHARACTERS else await asyncio.to_thread(act)


async def in_turns(items: Iterable[ItemT], act: Callable[[ItemT], ResultT]) -> list[ResultT]:
    """Apply `act` to each item in order, and let other tasks run in between."""
    results: list[ResultT] = []
    until = time.perf_counter() + TURN_SECONDS
    for item in items:
        results.append(act(item))
        if time.perf_counter() > until:
            await asyncio.sleep(0)
            until = time.perf_counter() + TURN_SECONDS
    return results
