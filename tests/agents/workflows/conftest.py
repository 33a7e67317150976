"""A fleet of the agents and sessions workers on a bus of its own; every test has a tenant of its own."""

import uuid
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
import pytest_asyncio
from nats.aio.client import Client

from hivemem_agents.worker import AgentsSettings
from hivemem_agents.worker import build as build_agents
from hivemem_runtime.worker import Worker
from hivemem_sessions.worker import SessionsSettings
from hivemem_sessions.worker import build as build_sessions
from hivemem_testing import agent
from hivemem_testing.agent import Body, connect
from hivemem_testing.servers import packaged_nats
from hivemem_testing.waiting import eventually

Step = dict[str, Any]


@dataclass
class Runner(agent.Agent):
    """A process of a tenant of its own that runs workflows."""

    SERVICE: ClassVar[str] = "agents"

    async def defined(self, *steps: Step, name: str = "order", **fields: Any) -> Body:
        return await self.ask("workflow_put", name=name, definition={"steps": list(steps), **fields})

    async def started(self, *steps: Step, run_id: str = "r1", input: Any = None, **fields: Any) -> Body:
        """Define a workflow and start a run of it."""
        await self.defined(*steps)
        return await self.ask("run_start", name="order", run_id=run_id, input=input, **fields)

    async def claim(self, name: str = "order", **fields: Any) -> Body:
        return await self.ask("step_claim", name=name, **fields)

    async def report(self, claimed: Body, output: Any = None, **fields: Any) -> Body:
        named = {name: claimed[name] for name in ("run_id", "step", "attempt", "token")}
        return await self.ask("step_report", {**named, "output": output, **fields})

    async def done(self, output: Any = None, **fields: Any) -> str:
        """Claim a step, report it, and return its id."""
        claimed = await self.claim(wait_ms=10_000, **fields)
        await self.report(claimed, output)
        step: str = claimed["step"]
        return step

    async def run(self, run_id: str = "r1", **fields: Any) -> Body:
        return await self.ask("run_get", run_id=run_id, **fields)

    async def status(self, run_id: str = "r1") -> str:
        status: str = (await self.run(run_id))["status"]
        return status

    async def comes_to(self, status: str, run_id: str = "r1") -> Body:
        """Wait until a run has a status, and return the run."""

        async def there() -> bool:
            return await self.status(run_id) == status

        await eventually(there, f"run {run_id} is {status}")
        return await self.run(run_id)


@dataclass
class SessionsBot(agent.Agent):
    SERVICE: ClassVar[str] = "sessions"

    async def events(self, session_id: str = "s1") -> Sequence[Body]:
        items: Sequence[Body] = (await self.ask("events", session_id=session_id))["items"]
        return items


@dataclass(frozen=True)
class Fleet:
    client: Client
    url: str
    settings: dict[str, Any]
    agents: Worker
    sessions: Worker

    def runner(self) -> Runner:
        return Runner(self.client, self.agents, f"tenant-{uuid.uuid4().hex[:12]}")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def fleet(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Fleet]:
    folder = tmp_path_factory.mktemp("workflows")
    with packaged_nats(folder / "nats") as nats:
        common: dict[str, Any] = {"nats_url": nats.url, "store": "sqlite", "data": folder}
        agents = build_agents(AgentsSettings(**common))
        sessions = build_sessions(SessionsSettings(**common))
        for worker in (sessions, agents):
            await worker.start()
        client = await connect(nats.url)
        yield Fleet(client, nats.url, common, agents, sessions)
        await client.close()
        for worker in (agents, sessions):
            await worker.stop()


@pytest.fixture
def runner(fleet: Fleet) -> Runner:
    """A process of a new tenant."""
    return fleet.runner()


@pytest.fixture
def sessions(fleet: Fleet, runner: Runner) -> SessionsBot:
    """The sessions service, for the same agent."""
    return SessionsBot(fleet.client, fleet.sessions, runner.tenant, runner.name)
