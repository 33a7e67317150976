"""Reads the content of the fleet page by page: histories, lists and the audit."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

from ..asking import PATIENCE_SECONDS, Asking, Refused
from .writing import memory

Body = dict[str, Any]

_PAGE: Final = 1_000
_POLL_SECONDS: Final = 0.05


async def read_history(asking: Asking, namespace: str, key: str) -> list[Body]:
    """Return the versions of a memory, oldest first; none if the memory was erased."""
    try:
        found = [each async for each in _pages(asking, "history", memory(namespace, key))]
    except Refused as refused:
        if refused.name != "NotFound":
            raise
        return []
    return found[::-1]


async def read_list(asking: Asking, prefix: str) -> list[Body]:
    return [each async for each in _pages(asking, "list", {"prefix": prefix, "include_deleted": True})]


async def read_audit(asking: Asking) -> list[Body]:
    """Wait until the audit has caught up with the feed, and return the whole chain, oldest first."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + PATIENCE_SECONDS
    while behind := (await asking.request("audit", {"limit": 1}, seconds=5))["behind"]:
        assert loop.time() < deadline, f"the audit is never up to date: {behind} changes behind"
        await asyncio.sleep(_POLL_SECONDS)
    return [each async for each in _pages(asking, "audit", {})][::-1]


async def verify_audit(asking: Asking) -> Body:
    """Verify page by page; return the first answer that reports a fault, or that the end was reached."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + PATIENCE_SECONDS
    body: Body = {}
    checked = 0
    while True:
        answer = await asking.request("audit_verify", body, seconds=10)
        checked += answer["checked"]
        if not answer["ok"] or answer["cursor"] is None or loop.time() > deadline:
            return {**answer, "checked": checked}
        body = {"cursor": answer["cursor"]}


async def _pages(asking: Asking, operation: str, body: Body) -> AsyncIterator[Body]:
    cursor: str | None = None
    while True:
        more = {"cursor": cursor} if cursor else {}
        page = await asking.request(operation, {**body, "limit": _PAGE, **more}, seconds=5)
        for item in page["items"]:
            yield item
        cursor = page["cursor"]
        if cursor is None:
            return
