"""What the feed tells of memories goes into the index, and out of it."""

from collections.abc import Sequence
from typing import Final

from hivemem_contracts.changes import Change
from hivemem_runtime.bus.reacting import Reaction, ReceivedChange
from hivemem_runtime.turns import in_turns
from hivemem_vectors.pipeline.decisions.changes import ERASED, version_of_change
from hivemem_vectors.pipeline.endpoints.indexing import Indexer

NAME: Final = "memories"
BATCH: Final = 500
GATHER_SECONDS: Final = 0.02
"""A memory is found that much later; then one commit is shared by many."""

ACK_WAIT_SECONDS: Final = 5.0
"""What a worker had in hand that was killed is found that much later."""


def memories_reaction(indexer: Indexer) -> Reaction:
    async def follow(changes: Sequence[ReceivedChange]) -> None:
        await indexer.take_up(await in_turns(newest(changes), version_of_change))

    return Reaction(
        NAME,
        ("hive.chg.*.memory.>",),
        follow,
        batch=BATCH,
        gather_seconds=GATHER_SECONDS,
        ack_wait_seconds=ACK_WAIT_SECONDS,
    )


def newest(changes: Sequence[ReceivedChange]) -> list[Change]:
    """Of each memory the last that was told: older ones are of no use any more, but for erasures, which are counted."""
    found: dict[tuple[str, str, str | None], Change] = {}
    erased: list[Change] = []
    for received in changes:
        change = received.change
        name = change.tenant, change.namespace, change.key
        if change.operation == ERASED:
            erased.append(change)
        if name not in found or found[name].version < change.version:
            found[name] = change
    return [*erased, *(change for change in found.values() if change.operation != ERASED)]
