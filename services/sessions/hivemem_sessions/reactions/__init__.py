"""What the sessions worker does when something changed."""

from collections.abc import Sequence

from hivemem_runtime.bus.reacting import Reaction, ReceivedChange
from hivemem_runtime.ledger.port import Ledger
from hivemem_sessions.reactions.archiving import freeze_announced


def reactions(ledger: Ledger) -> tuple[Reaction, ...]:
    async def archive(changes: Sequence[ReceivedChange]) -> None:
        """An archived session's events all move to cold storage, whichever worker archived it."""
        for received in changes:
            change = received.change
            if change.operation == "archived":
                await freeze_announced(ledger, change.tenant, change.namespace, change.version)

    return (Reaction("archive", ("hive.chg.*.session.*",), archive),)
