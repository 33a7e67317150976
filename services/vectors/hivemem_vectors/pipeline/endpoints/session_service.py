"""What the session service is asked: sessions and events that were left out of what the feed told."""

from collections.abc import AsyncGenerator
from typing import Any, Final

from hivemem_contracts.errors import NotFound
from hivemem_contracts.limits import LIST_MAXIMUM
from hivemem_contracts.sessions import operations, requests
from hivemem_runtime.bus.asking import Asking
from hivemem_vectors.pipeline.endpoints.memory_service import AGENT

PAGE: Final = 100
assert PAGE <= LIST_MAXIMUM

Body = dict[str, Any]


class Sessions:
    """Raises what `Asking.ask` does: `Unavailable` while no session worker answers."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking

    async def session(self, tenant: str, session_id: str) -> Body | None:
        """As it travels; None where there is none, or none any more."""
        try:
            answer = await self._asking.ask(tenant, AGENT, operations.GET, requests.GetSession(session_id=session_id))
        except NotFound:
            return None
        session: Body = answer["session"]
        return session

    async def event(self, tenant: str, session_id: str, sequence: int) -> Body | None:
        """None where the session is not there any more."""
        body = requests.ListEvents(session_id=session_id, after=sequence - 1, before=sequence + 1, limit=1)
        try:
            answer = await self._asking.ask(tenant, AGENT, operations.EVENTS, body)
        except NotFound:
            return None
        return answer["items"][0] if answer["items"] else None

    async def events(self, tenant: str, session_id: str, after: int, most: int) -> AsyncGenerator[list[Body]]:
        """The first ones after a sequence, page by page. Raises `NotFound` where the session is not there any more."""
        cursor: str | None = None
        while most > 0:
            body = requests.ListEvents(session_id=session_id, after=after, limit=min(PAGE, most), cursor=cursor)
            answer = await self._asking.ask(tenant, AGENT, operations.EVENTS, body)
            yield answer["items"]
            cursor, most = answer["cursor"], most - len(answer["items"])
            if cursor is None:
                return
