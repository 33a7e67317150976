"""The sessions service as any program sees it: subjects, headers and JSON over a plain NATS client."""

import asyncio
from typing import Any, ClassVar

from hivemem_testing import agent
from hivemem_testing.agent import Body, Refused, Told, connect
from hivemem_testing.waiting import eventually

__all__ = ["Agent", "Body", "Refused", "Told", "connect", "eventually"]


class Agent(agent.Agent):
    """One agent of a tenant of its own."""

    SERVICE: ClassVar[str] = "sessions"

    async def create(self, session_id: str, /, *, id: str | None = None, **fields: Any) -> Body:
        body = {"session_id": session_id, "app_name": "app", "user_id": "user", **fields}
        while True:
            try:
                return await self.ask("create", body, id=id)
            except Refused as refused:
                # An id is free again once the erasure of its last owner is announced.
                if not refused.error["retryable"]:
                    raise
                await asyncio.sleep(refused.context["retry_after_ms"] / 1_000)

    async def append(self, session_id: str, type: str = "note", /, *, id: str | None = None, **fields: Any) -> Body:
        """Append an event. `fields` are fields of the event, except those beside it in an append."""
        beside = ("state_delta", "state_nulls", "expect_revision")
        own = {name: fields.pop(name) for name in beside if name in fields}
        return await self.ask("append", id=id, session_id=session_id, event={"type": type, **fields}, **own)

    async def session(self, session_id: str, **fields: Any) -> Body:
        found: Body = (await self.ask("get", session_id=session_id, **fields))["session"]
        return found

    async def events(self, session_id: str, **fields: Any) -> list[Body]:
        """Return all events, read page by page."""
        found: list[Body] = []
        cursor: str | None = None
        while True:
            page = await self.ask(
                "events", {**fields, "session_id": session_id, **({"cursor": cursor} if cursor else {})}
            )
            found += page["items"]
            cursor = page["cursor"]
            if cursor is None:
                return found

    async def sequences(self, session_id: str, **fields: Any) -> list[int]:
        return [event["sequence"] for event in await self.events(session_id, **fields)]
