"""Progress on standard error, only if it is a terminal."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import Final

SLOW_SECONDS: Final = 1.0
"""A request that takes longer is shown as under way."""


@contextmanager
def counter(what: str) -> Generator[Callable[[str], None]]:
    """Show a line that the yielded function replaces, for work whose end nobody knows."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status(Text(what)) as status:
        yield lambda told: status.update(Text(told))


@asynccontextmanager
async def shown_when_slow(what: str) -> AsyncGenerator[None]:
    """Show a spinner if the work takes longer than `SLOW_SECONDS`."""
    with ExitStack() as shown:

        def show() -> None:
            shown.enter_context(counter(what))

        timer = asyncio.get_running_loop().call_later(SLOW_SECONDS, show)
        try:
            yield
        finally:
            timer.cancel()
