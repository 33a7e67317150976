"""Conditional writes in the harness: writers that name the version they have read lose no update."""

from collections.abc import Sequence

from nats.aio.client import Client

from ..fleet import worker_command
from ..service import Circumstances, Service, Stopping
from .checker import check
from .load import Journal, MemoryRegister, Register, SessionRegister, read_and_write


class RegistersTrial:
    def __init__(self, circumstances: Circumstances) -> None:
        self.journal = Journal()
        self._seed = circumstances.seed
        self._registers: list[Register] = [*map(SessionRegister, ("s1", "s2")), *map(MemoryRegister, ("m1", "m2"))]

    async def load(self, clients: Sequence[Client], stopping: Stopping) -> None:
        await read_and_write(self._registers, clients, self.journal, self._seed, stopping)

    async def verify(self, client: Client) -> list[str]:
        histories = {register.name: await register.history(client) for register in self._registers}
        return list(check(self.journal.operations, histories))


REGISTERS = Service(RegistersTrial, [worker_command("hivemem_sessions"), worker_command("hivemem_memory")])
