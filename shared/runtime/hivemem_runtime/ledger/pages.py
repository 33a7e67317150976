"""All pages of a query, one after the other."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

from hivemem_runtime.ledger.port import Page

ItemT = TypeVar("ItemT")


async def pages(
    read: Callable[[str | None], Awaitable[Page[ItemT]]], cursor: str | None = None
) -> AsyncIterator[list[ItemT]]:
    """Yield the items of each page; `read` takes the cursor of the page before, None for the first one."""
    while True:
        page = await read(cursor)
        yield page.items
        cursor = page.cursor
        if cursor is None:
            return
