"""A bounded wait for changes that happen within a second, such as a durable announcement mark."""

import asyncio
from collections.abc import Awaitable, Callable

from hivemem_runtime.ledger.port import Ledger

POLL_SECONDS = 0.02
DEADLINE_SECONDS = 5.0
FAR = 2**53


async def eventually(holds: Callable[[], Awaitable[bool]], what: str) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + DEADLINE_SECONDS
    while not await holds():
        assert loop.time() < deadline, f"never within {DEADLINE_SECONDS} s: {what}"
        await asyncio.sleep(POLL_SECONDS)


async def nothing_due(ledger: Ledger, tenant: str = "acme") -> None:
    async def quiet() -> bool:
        return not [due for due in await ledger.due(older_than=FAR, limit=1000) if due.tenant == tenant]

    await eventually(quiet, "everything is marked as announced")


async def announce_all(ledger: Ledger, *others: Ledger) -> None:
    """Mark every version of every key as announced, and wait until the other ledgers on the store know it, too."""
    for due in await ledger.due(older_than=FAR, limit=1000):
        ledger.announced(due.entity, due.tenant, due.id, due.version)

    async def quiet() -> bool:
        return not any([await each.due(older_than=FAR, limit=1) for each in (ledger, *others)])

    await eventually(quiet, "everything is marked as announced")
