"""A bounded wait for a condition that no signal announces."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Final

DEADLINE_SECONDS: Final = 15.0
POLL_SECONDS: Final = 0.01


async def eventually(holds: Callable[[], bool | Awaitable[bool]], what: str) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + DEADLINE_SECONDS
    while True:
        held = holds()
        if await held if inspect.isawaitable(held) else held:
            return
        assert loop.time() < deadline, f"never within {DEADLINE_SECONDS} s: {what}"
        await asyncio.sleep(POLL_SECONDS)
