"""The reaction to the end of a session: its windows are kept, archived or deleted, as their resources say."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final, cast

from hivemem_contracts.changes import Change
from hivemem_contracts.errors import NotFound
from hivemem_runtime.bus.reactions.runner import Reaction, ReceivedChange
from hivemem_runtime.ledger.pages import pages
from hivemem_runtime.ledger.port import Ledger, Write, system_write
from hivemem_windows.decisions.endings import end_with_session
from hivemem_windows.endpoints.resource_rules import ResourceRules
from hivemem_windows.entities.contents import CONTENT, Content
from hivemem_windows.entities.windows import WINDOW

AT_ONCE: Final = 100


def sessions_reaction(ledger: Ledger, rules: ResourceRules) -> Reaction:
    async def follow(changes: Sequence[ReceivedChange]) -> None:
        for received in changes:
            change = received.change
            if change.operation == "deleted" or _status(change) == "terminated":
                await _end_windows(ledger, rules, change)

    return Reaction("sessions", ("hive.chg.*.session.*",), follow)


def _status(change: Change) -> Any:
    if change.operation != "status_changed" or not isinstance(change.value, dict):
        return None
    return cast("dict[str, Any]", change.value).get("status")


async def _end_windows(ledger: Ledger, rules: ResourceRules, change: Change) -> None:
    equals = {"session_id": change.namespace}
    async for found in pages(
        lambda cursor: ledger.find(CONTENT, change.tenant, "session", equals=equals, cursor=cursor, limit=AT_ONCE)
    ):
        ended = [(head.id, head.value) for head in found if head.value is not None]
        actions = [await _action(rules, change.tenant, content) for _, content in ended]
        writes = [_end(change, id, action) for (id, _), action in zip(ended, actions, strict=True) if action != "keep"]
        await asyncio.gather(*map(ledger.commit, writes))


async def _action(rules: ResourceRules, tenant: str, content: Content) -> str:
    try:
        return (await rules.rules(tenant, content.resource)).resource.on_session_end
    except NotFound:
        return "keep"


def _end(change: Change, id: str, action: str) -> Write:
    return system_write(
        change.tenant,
        WINDOW,
        id,
        lambda heads, now: end_with_session(heads, id, change.namespace, action, now),
        ((CONTENT, id),),
        actor=change.actor,
        # A redelivery must not end a window that was begun anew in the meantime.
        once=f"ended:{change.namespace}:{change.version}",
        cause=change.cause,
    )
