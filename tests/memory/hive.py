"""The memory service as any program sees it: subjects, headers and JSON over a plain NATS client."""

from typing import Any, ClassVar

from hivemem_testing import agent
from hivemem_testing.agent import Body, Refused, Told, connect
from hivemem_testing.waiting import eventually

__all__ = ["LIFE_SECONDS", "NAMESPACE", "Agent", "Body", "Refused", "Told", "connect", "eventually", "source"]

NAMESPACE = "user:alice"
LIFE_SECONDS = 2.0
"""The life of a memory that a test reads before and after it expires: a busy machine takes a second for the reads."""


def source(**fields: Any) -> Body:
    """Return a source as memories show it."""
    return dict.fromkeys(("session_id", "event_id", "task_id", "agent_id", "cycle", "document")) | fields


class Agent(agent.Agent):
    """One agent of a tenant of its own. The default namespace is `NAMESPACE`."""

    SERVICE: ClassVar[str] = "memory"

    async def put(self, key: str, value: Any = None, /, *, id: str | None = None, **fields: Any) -> Body:
        return await self.ask("put", {"namespace": NAMESPACE, "key": key, "value": value}, id=id, **fields)

    async def patch(self, key: str, patch: Any, /, *, id: str | None = None, **fields: Any) -> Body:
        return await self.ask("patch", {"namespace": NAMESPACE, "key": key, "patch": patch}, id=id, **fields)

    async def delete(self, key: str, /, *, id: str | None = None, **fields: Any) -> Body:
        return await self.ask("delete", {"namespace": NAMESPACE, "key": key}, id=id, **fields)

    async def restore(self, key: str, /, *, id: str | None = None, **fields: Any) -> Body:
        return await self.ask("restore", {"namespace": NAMESPACE, "key": key}, id=id, **fields)

    async def memory(self, key: str, /, **fields: Any) -> Body:
        """Return the answer of `get`."""
        return await self.ask("get", {"namespace": NAMESPACE, "key": key}, **fields)

    async def versions(self, key: str, /, **fields: Any) -> list[Body]:
        """Return the whole history, oldest first."""
        found = await self.pages("history", namespace=NAMESPACE, key=key, **fields)
        return found[::-1]

    async def keys(self, prefix: str = NAMESPACE, /, **fields: Any) -> list[str]:
        """Return the keys that `list` answers."""
        return [memory["key"] for memory in await self.pages("list", prefix=prefix, **fields)]

    async def pages(self, operation: str, /, **fields: Any) -> list[Body]:
        """Return all items of a paged operation."""
        found: list[Body] = []
        cursor: str | None = None
        while True:
            page = await self.ask(operation, {**fields, **({"cursor": cursor} if cursor else {})})
            found += page["items"]
            cursor = page["cursor"]
            if cursor is None:
                return found
