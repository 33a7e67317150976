"""Newly declared state indexes get the sessions that were there before."""

import asyncio
import time
from collections.abc import Sequence
from functools import partial
from typing import Final

from hivemem_runtime.bus.reactions.runner import ReceivedChange
from hivemem_runtime.ledger.pages import pages
from hivemem_runtime.ledger.port import Decision, Head, Heads, Ledger, Page, system_write, value_of
from hivemem_sessions.decisions.apps import complete_indexes, index_session
from hivemem_sessions.entities import APP, SESSION, App, SessionHead

SESSIONS_AT_ONCE: Final = 100
REST_FACTOR: Final = 1
"""After each page the backfill rests this many times as long as the page took, so it uses at most half of the store."""


async def fill_changed(ledger: Ledger, changes: Sequence[ReceivedChange]) -> None:
    for received in changes:
        await fill_indexes(ledger, received.change.tenant, received.change.namespace)


async def fill_indexes(ledger: Ledger, tenant: str, app_name: str) -> None:
    """Give every session of an app the newest declaration. After a crash it begins again, and skips the sessions that
    have the declaration.

    Sessions that are created meanwhile have it already, because their creation reads the app in its own commit.
    """
    app = value_of(await ledger.head(APP, tenant, app_name))
    if app is None or not app.pending:
        return
    async for heads in pages(partial(_sessions, ledger, tenant, app_name)):
        started = time.monotonic()
        behind = [head.id for head in heads if head.value and head.value.indexes_declared < app.declared]
        await asyncio.gather(*(_index(ledger, tenant, session_id, app) for session_id in behind))
        await asyncio.sleep(REST_FACTOR * (time.monotonic() - started))

    def complete(heads: Heads, now: int) -> Decision:
        return complete_indexes(heads, app_name, app.declared)

    await ledger.commit(system_write(tenant, APP, app_name, complete))


async def _sessions(ledger: Ledger, tenant: str, app_name: str, cursor: str | None) -> Page[Head[SessionHead]]:
    return await ledger.find(
        SESSION, tenant, "app", equals={"app_name": app_name}, cursor=cursor, limit=SESSIONS_AT_ONCE
    )


async def _index(ledger: Ledger, tenant: str, session_id: str, app: App) -> None:
    await ledger.commit(
        system_write(tenant, SESSION, session_id, lambda heads, now: index_session(heads, session_id, app))
    )
