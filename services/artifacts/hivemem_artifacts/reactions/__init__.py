"""What the artifacts worker does when something changed."""

import asyncio
import time
from collections.abc import Sequence
from typing import Final

from hivemem_artifacts.reactions.sessions import SessionFiles
from hivemem_artifacts.reactions.views import Views
from hivemem_runtime.bus.reacting import Reaction, ReceivedChange

REST: Final = 9
"""Showing a session takes as long as it is large: it rests so many times as long as it worked."""

REST_SECONDS: Final = 5.0
BATCH: Final = 2_000


def reactions(views: Views, session_files: SessionFiles) -> tuple[Reaction, ...]:
    async def show(changes: Sequence[ReceivedChange]) -> None:
        started = time.monotonic()
        await views.show((received.change.tenant, received.change.namespace) for received in changes)
        # What changes meanwhile is shown together with the next.
        await asyncio.sleep(min(REST * (time.monotonic() - started), REST_SECONDS))

    return (
        Reaction("views", ("hive.chg.*.artifact.>",), show, batch=BATCH),
        Reaction("sessions", ("hive.chg.*.session.*",), session_files.follow),
    )
