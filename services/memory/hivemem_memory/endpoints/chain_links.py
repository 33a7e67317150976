"""Reads of a tenant's chain: its position on the feed, and the last linked version of a memory."""

import asyncio
import zlib
from collections.abc import Iterable
from typing import Final

from hivemem_memory.decisions.audit_chain import FeedMark, feed_mark
from hivemem_memory.entities.audit import CHAIN, CHAIN_ID, FEED_POSITION, Link
from hivemem_runtime.ledger.port import Ledger

PLACES_AT_ONCE: Final = 100
FIRST_LINKS: Final = 4
LINKS_AT_ONCE: Final = 100
"""The number of links in each later read. The last link of a place usually names a version; after refusals more
links are read."""

UNREADABLE: Final = (ValueError, TypeError, KeyError, AttributeError, zlib.error)
"""The errors of decoding a body that was edited by hand."""


def tells(link: Link) -> bool:
    """Return whether a link names a version of a memory."""
    return link.outcome == "done" and link.to_version is not None


async def read_mark(ledger: Ledger, tenant: str) -> FeedMark:
    """Return the chain's position on the feed. Raises one of `UNREADABLE` if the chain's head was edited by hand."""
    chain = await ledger.head(CHAIN, tenant, CHAIN_ID)
    return feed_mark(chain, await ledger.head(FEED_POSITION, tenant, CHAIN_ID))


async def linked_versions(ledger: Ledger, tenant: str, places: Iterable[str]) -> dict[str, int]:
    """Return the last linked version of each place: 0 if there is no link of a version, or an unreadable one."""
    wanted = list(places)
    found: dict[str, int] = {}
    for start in range(0, len(wanted), PLACES_AT_ONCE):
        some = wanted[start : start + PLACES_AT_ONCE]
        versions = await asyncio.gather(*(linked_version(ledger, tenant, place) for place in some))
        found.update(zip(some, versions, strict=True))
    return found


async def linked_version(ledger: Ledger, tenant: str, place: str, before: int | None = None) -> int:
    """Return the version of the last link of a place, or of the last one before a position."""
    limit = FIRST_LINKS
    while True:
        try:
            records = await ledger.history(
                CHAIN,
                tenant,
                CHAIN_ID,
                before=before,
                limit=limit,
                reverse=True,
                by_position=True,
                tag=("place", place),
            )
        except UNREADABLE:
            return 0
        for record in records:
            if tells(record.value):
                return record.value.to_version or 0
        if len(records) < limit:
            return 0
        before, limit = records[-1].value.position, LINKS_AT_ONCE
