"""What many keys hold now."""

from collections.abc import Iterable

from hivemem_runtime.ledger.entity import Entity, HeadT, RecordT
from hivemem_runtime.ledger.port import Ledger


async def current_values(
    ledger: Ledger, entity: Entity[HeadT, RecordT], tenant: str, ids: Iterable[str]
) -> dict[str, HeadT]:
    """Return what the keys hold, without those that were never written or are erased."""
    wanted = list(ids)
    heads = await ledger.heads(entity, tenant, wanted) if wanted else {}
    return {id: head.value for id, head in heads.items() if head.value is not None}
