"""Sessions in the harness."""

from collections.abc import Sequence

from nats.aio.client import Client

from ..fleet import worker_command
from ..service import Circumstances, Service, Stopping
from .journal import Journal
from .load import Load, Size
from .verifier import verify

_FEW_COMMANDS = Size(sessions=8, hot_writers=4, routes=2, mayflies=0)


class SessionsTrial:
    def __init__(self, circumstances: Circumstances) -> None:
        self.journal = Journal()
        self._seed = circumstances.seed
        # A late first try of an earlier life could write to a new session of the same id, so such runs reuse no id.
        size = Size(mayflies=0) if circumstances.late else Size()
        self._size = _FEW_COMMANDS if circumstances.stalled else size

    async def load(self, clients: Sequence[Client], stopping: Stopping) -> None:
        await Load(clients, self.journal, self._seed, stopping).run(self._size)

    async def verify(self, client: Client) -> list[str]:
        return await verify(client, self.journal)


SESSIONS = Service(SessionsTrial, [worker_command("hivemem_sessions")], {"HIVEMEM_ARCHIVE_AFTER_EVENTS": "100"})
