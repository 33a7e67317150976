"""The reactions of the sessions worker to changes on the feed."""

from collections.abc import Sequence
from functools import partial

from hivemem_runtime.bus.reactions.runner import Reaction, ReceivedChange
from hivemem_runtime.ledger.port import Ledger
from hivemem_sessions.reactions.cold_storage import freeze_announced
from hivemem_sessions.reactions.state_indexes import fill_changed


def reactions(ledger: Ledger) -> tuple[Reaction, ...]:
    async def archive(changes: Sequence[ReceivedChange]) -> None:
        """Move all events of an archived session to cold storage, whichever worker archived the session."""
        for received in changes:
            change = received.change
            if change.operation == "archived":
                await freeze_announced(ledger, change.tenant, change.namespace, change.version)

    return (
        Reaction("archive", ("hive.chg.*.session.*",), archive),
        Reaction("state-indexes", ("hive.chg.*.app.*",), partial(fill_changed, ledger), batch=1),
    )
