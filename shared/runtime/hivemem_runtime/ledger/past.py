"""Heads at a past version or moment, rebuilt from the nearest snapshot and the records after it."""

from typing import cast

from hivemem_runtime.ledger.entity import Entity, HeadT, RecordT
from hivemem_runtime.ledger.port import Head, Ledger


async def head_at(
    ledger: Ledger, entity: Entity[HeadT, RecordT], tenant: str, id: str, version: int, *, after: int = 0
) -> Head[HeadT] | None:
    """The head right after `version`, or None where that version is not there (never was, or erased).

    Where an erased key had the id before, `after` is its last version: what is kept of it may not be evolved from.
    """
    first = version - (version % entity.snapshot_every)
    records = await ledger.history(
        entity, tenant, id, after=max(first - 1, after), before=version + 1, limit=entity.snapshot_every + 1
    )
    if not records or records[-1].stamp.version != version:
        return None
    value: HeadT | None = None
    last = 0
    for record in records:
        if record.stamp.version != last + 1:
            # The version between was an erasure: the key began anew, whatever a fork still shares of the time before.
            value = None
        last = record.stamp.version
        value = (
            entity.evolve(value, record.value, record.stamp)
            if record.snapshot is None
            else cast("HeadT", record.snapshot)
        )
    return Head(id, version, records[-1].stamp.at, value)


async def head_as_of(
    ledger: Ledger, entity: Entity[HeadT, RecordT], tenant: str, id: str, at: int, *, after: int = 0
) -> Head[HeadT] | None:
    """The head as it was at a moment."""
    version = await ledger.version_at(entity, tenant, id, at)
    return await head_at(ledger, entity, tenant, id, version, after=after) if version > after else None
