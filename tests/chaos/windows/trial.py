"""Windows in the harness."""

from collections.abc import Sequence

from nats.aio.client import Client

from ..fleet import worker_command
from ..journal import Journal
from ..service import Circumstances, Service, Stopping
from .load import run_writers
from .verifier import verify


class WindowsTrial:
    def __init__(self, circumstances: Circumstances) -> None:
        del circumstances
        self.journal = Journal()

    async def load(self, clients: Sequence[Client], stopping: Stopping) -> None:
        await run_writers(clients, self.journal, stopping)

    async def verify(self, client: Client) -> list[str]:
        return await verify(client, self.journal)


WINDOWS = Service(WindowsTrial, [worker_command("hivemem_windows")])
