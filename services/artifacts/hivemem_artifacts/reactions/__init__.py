"""The reactions of the artifacts worker to changes on the feed."""

import asyncio
import time
from collections.abc import Sequence
from typing import Final

from hivemem_artifacts.reactions.sessions import SessionFiles
from hivemem_artifacts.reactions.views import SessionViews
from hivemem_runtime.bus.reactions.runner import Reaction, ReceivedChange

REST: Final = 9
"""After an update of views the reaction rests this many times its duration, because a view takes time in proportion
to its size."""

REST_SECONDS: Final = 5.0
BATCH: Final = 2_000


def reactions(views: SessionViews, session_files: SessionFiles) -> tuple[Reaction, ...]:
    async def show(changes: Sequence[ReceivedChange]) -> None:
        started = time.monotonic()
        await views.show((received.change.tenant, received.change.namespace) for received in changes)
        # Changes during the rest are shown together in the next batch.
        await asyncio.sleep(min(REST * (time.monotonic() - started), REST_SECONDS))

    return (
        Reaction("views", ("hive.chg.*.artifact.>",), show, batch=BATCH),
        Reaction("sessions", ("hive.chg.*.session.*",), session_files.follow),
    )
