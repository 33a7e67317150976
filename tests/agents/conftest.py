"""A fleet of the agents, memory and vectors workers on a bus of its own; every test has a tenant of its own."""

import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
import pytest_asyncio
from nats.aio.client import Client

from hivemem_agents.worker import AgentsSettings
from hivemem_agents.worker import build as build_agents
from hivemem_memory.worker import MemorySettings
from hivemem_memory.worker import build as build_memory
from hivemem_runtime.worker import Worker
from hivemem_testing import agent
from hivemem_testing.agent import Body, connect
from hivemem_testing.servers import packaged_nats
from hivemem_vectors.worker import VectorsSettings
from hivemem_vectors.worker import build as build_vectors


@dataclass
class Bot(agent.Agent):
    """One agent of a tenant of its own."""

    SERVICE: ClassVar[str] = "agents"

    async def registered(self, agent_id: str = "alpha") -> None:
        await self.ask("register", agent_id=agent_id)

    async def cycle(self, agent_id: str = "alpha", **fields: Any) -> Body:
        """Go through a whole cycle."""
        number = (await self.ask("cycle_begin", agent_id=agent_id))["number"]
        await self.ask("propose", agent_id=agent_id, number=number, plan="go")
        return await self.ask("complete", {"outcome": "success", **fields}, agent_id=agent_id, number=number)

    async def record(self, content: Any, kind: str = "observation", **fields: Any) -> str:
        """Record something, and return its key."""
        key: str = (await self.ask("record", agent_id="alpha", kind=kind, content=content, **fields))["key"]
        return key

    async def contents(self, **fields: Any) -> list[Any]:
        page = await self.ask("records", agent_id="alpha", **fields)
        return [item["content"] for item in page["items"]]


@dataclass
class Remembering(agent.Agent):
    SERVICE: ClassVar[str] = "memory"


@dataclass(frozen=True)
class Fleet:
    client: Client
    agents: Worker
    memory: Worker

    def bot(self) -> Bot:
        return Bot(self.client, self.agents, f"tenant-{uuid.uuid4().hex[:12]}")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def fleet(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Fleet]:
    folder = tmp_path_factory.mktemp("agents")
    with packaged_nats(folder / "nats") as nats:
        common: dict[str, Any] = {"nats_url": nats.url, "store": "sqlite", "data": folder}
        agents = build_agents(AgentsSettings(**common))
        memory = build_memory(MemorySettings(**common))
        vectors = build_vectors(VectorsSettings(**common))
        for worker in (memory, vectors, agents):
            await worker.start()
        client = await connect(nats.url)
        yield Fleet(client, agents, memory)
        await client.close()
        for worker in (agents, vectors, memory):
            await worker.stop()


@pytest.fixture
def bot(fleet: Fleet) -> Bot:
    """An agent of a new tenant."""
    return fleet.bot()


@pytest.fixture
def memories(fleet: Fleet, bot: Bot) -> Remembering:
    """The memory service, for the same agent."""
    return Remembering(fleet.client, fleet.memory, bot.tenant, bot.name)
