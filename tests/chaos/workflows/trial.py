"""Workflows in the harness: twenty agents, one session and a few memories that all runs share."""

from collections.abc import Sequence

from nats.aio.client import Client

from ..fleet import worker_command
from ..service import Circumstances, Service, Stopping
from .load import Journal, run_agents
from .verifier import verify


class WorkflowsTrial:
    def __init__(self, circumstances: Circumstances) -> None:
        self.journal = Journal()
        self._seed = circumstances.seed

    async def load(self, clients: Sequence[Client], stopping: Stopping) -> None:
        await run_agents(clients, self.journal, self._seed, stopping)

    async def verify(self, client: Client) -> list[str]:
        return await verify(client, self.journal)


WORKFLOWS = Service(
    WorkflowsTrial,
    [worker_command(f"hivemem_{service}") for service in ("agents", "memory", "sessions")],
    waits_by_clock=True,
)
