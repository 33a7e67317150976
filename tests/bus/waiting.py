"""A bounded wait for a condition that another process or task makes true."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable

POLL_SECONDS = 0.02
DEADLINE_SECONDS = 20.0


async def eventually(
    holds: Callable[[], bool | Awaitable[bool]], what: str, deadline_seconds: float = DEADLINE_SECONDS
) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + deadline_seconds
    while True:
        held = holds()
        if await held if inspect.isawaitable(held) else held:
            return
        assert loop.time() < deadline, f"never within {deadline_seconds} s: {what}"
        await asyncio.sleep(POLL_SECONDS)
