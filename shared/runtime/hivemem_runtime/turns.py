"""Work that takes the processor for long, done so that the event loop goes on meanwhile."""

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

INLINE_CHARACTERS: Final = 3_000
"""To cut more text than that into chunks, or to count its words, takes longer than a turn."""

TURN_SECONDS: Final = 0.005

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


async def offloaded(characters: int, act: Callable[[], ResultT]) -> ResultT:
    """What `act` makes of so much text."""
    return act() if characters <= INLINE_CHARACTERS else await asyncio.to_thread(act)


async def in_turns(items: Iterable[ItemT], act: Callable[[ItemT], ResultT]) -> list[ResultT]:
    """Each in its order; between them others have their turn."""
    results: list[ResultT] = []
    until = time.perf_counter() + TURN_SECONDS
    for item in items:
        results.append(act(item))
        if time.perf_counter() > until:
            await asyncio.sleep(0)
            until = time.perf_counter() + TURN_SECONDS
    return results
