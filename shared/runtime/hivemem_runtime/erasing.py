"""Erasing a key for good, once everything about it has been announced."""

from typing import Final, Protocol

from hivemem_contracts.errors import Unavailable
from hivemem_runtime.ledger.entity import AnyEntity, Stamp
from hivemem_runtime.ledger.port import Ledger

TRIES: Final = 20
RETRY_AFTER_MS: Final = 500


class Announcements(Protocol):
    """What an erasure needs of the announcer: nothing may be erased that the feed has not told yet."""

    async def flush(self, entity: AnyEntity, tenant: str, id: str, version: int, announced: int) -> None: ...

    async def flush_tombstone(self, stamp: Stamp) -> None: ...


async def erase_announced(
    ledger: Ledger,
    announcements: Announcements,
    entity: AnyEntity,
    tenant: str,
    id: str,
    *,
    actor: str,
    cause: str | None,
    keep_through_position: int = 0,
    version: int | None = None,
) -> Stamp | None:
    """`Ledger.erase`, with everything before it announced first, also what is written in the meantime."""
    for _ in range(TRIES):
        try:
            return await ledger.erase(
                entity,
                tenant,
                id,
                actor=actor,
                cause=cause,
                keep_through_position=keep_through_position,
                version=version,
            )
        except Unavailable as error:
            announced = error.context.get("announced")
            head = await ledger.head(entity, tenant, id)
            if announced is None or head is None:
                raise
        await announcements.flush(entity, tenant, id, head.version, int(announced))
    raise Unavailable(f"{entity.name} {id!r} is written to all the time", retry_after_ms=RETRY_AFTER_MS)
