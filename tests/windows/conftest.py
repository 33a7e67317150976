"""Two windows workers, a memory and a sessions worker on a bus of their own; every test has its own tenant."""

import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
import pytest_asyncio
from nats.aio.client import Client

from hivemem_memory.worker import MemorySettings
from hivemem_memory.worker import build as build_memory
from hivemem_runtime.worker import Worker
from hivemem_sessions.worker import SessionsSettings
from hivemem_sessions.worker import build as build_sessions
from hivemem_testing import agent
from hivemem_testing.agent import Body, connect
from hivemem_testing.servers import packaged_nats
from hivemem_windows.worker import WindowsSettings
from hivemem_windows.worker import build as build_windows

CHAT: Body = {"resource": "chat", "key": "k1"}


@dataclass
class Writer(agent.Agent):
    """An agent that shares windows of the resource `chat`."""

    SERVICE: ClassVar[str] = "windows"
    others: ClassVar[Worker]
    """The other worker, which may have answered any of the requests."""

    async def announced(self) -> None:
        await super().announced()
        await agent.Agent(self.client, self.others, self.tenant).announced()

    async def declare(self, **fields: Any) -> Body:
        """Declare the resource `chat`: by default for 10 messages."""
        declared = {"id": "chat", "type": "message", "key": "user:{{ user_id }}", "max_messages": 10}
        return await self.ask("resource_put", resource={**declared, **fields})

    async def say(self, content: Any, role: str = "user", *, here: Body = CHAT, **fields: Any) -> Body:
        return await self.ask("append", here, message={"role": role, "content": content, **fields})

    async def contents(self, here: Body = CHAT, **fields: Any) -> list[Any]:
        return [message["content"] for message in (await self.ask("read", here, **fields))["messages"]]

    async def originals(self, here: Body = CHAT, **fields: Any) -> list[Any]:
        """Return the contents of all pages."""
        found: list[Any] = []
        cursor: Body = {}
        while True:
            page = await self.ask("originals", here, **fields, **cursor)
            found += [message["content"] for message in page["items"]]
            if page["cursor"] is None:
                return found
            cursor = {"cursor": page["cursor"]}


@dataclass
class Conversing(agent.Agent):
    SERVICE: ClassVar[str] = "sessions"


@dataclass
class Locking(agent.Agent):
    SERVICE: ClassVar[str] = "memory"


@dataclass(frozen=True)
class Fleet:
    client: Client
    windows: Worker

    def writer(self) -> Writer:
        return Writer(self.client, self.windows, f"tenant-{uuid.uuid4().hex[:12]}")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def fleet(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Fleet]:
    folder = tmp_path_factory.mktemp("windows")
    with packaged_nats(folder / "nats") as nats:
        common: dict[str, Any] = {"nats_url": nats.url, "store": "sqlite", "data": folder}
        workers = [build_memory(MemorySettings(**common)), build_sessions(SessionsSettings(**common))]
        workers += [build_windows(WindowsSettings(**common)) for _ in range(2)]
        for worker in workers:
            await worker.start()
        client = await connect(nats.url)
        Writer.others = workers[3]
        yield Fleet(client, workers[2])
        await client.close()
        for worker in reversed(workers):
            await worker.stop()


@pytest.fixture
def writer(fleet: Fleet) -> Writer:
    """An agent of a new tenant."""
    return fleet.writer()


@pytest.fixture
def sessions(fleet: Fleet, writer: Writer) -> Conversing:
    """The sessions service, for the same agent."""
    return Conversing(fleet.client, fleet.windows, writer.tenant, writer.name)


@pytest.fixture
def memory(fleet: Fleet, writer: Writer) -> Locking:
    """The memory service, for the same agent."""
    return Locking(fleet.client, fleet.windows, writer.tenant, writer.name)
