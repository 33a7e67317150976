"""Memories in the harness."""

import sys
from collections.abc import Sequence
from pathlib import Path

from nats.aio.client import Client

from ..service import Circumstances, Service, Stopping
from .journal import Journal
from .load import Load, Size
from .verifier import verify

HASTY = str(Path(__file__).with_name("hasty_worker.py"))


class MemoryTrial:
    def __init__(self, circumstances: Circumstances) -> None:
        self.journal = Journal()
        self._seed, self._skewed = circumstances.seed, circumstances.skewed
        # With skewed clocks, or stalled commands, the order of a waiting command and an erasure is undefined.
        erasures = {"mayflies": 0} if circumstances.skewed or circumstances.stalled else {}
        commands = {"commanders": 2} if circumstances.stalled else {}
        self._size = Size(**erasures, **commands)

    async def load(self, clients: Sequence[Client], stopping: Stopping) -> None:
        await Load(clients, self.journal, self._seed, stopping).run(self._size)

    async def verify(self, client: Client) -> list[str]:
        return await verify(client, self.journal, self._seed, skewed=self._skewed)


MEMORY = Service(MemoryTrial, [(sys.executable, HASTY)])
