"""The services as attributes of a synchronous client, generated from the contracts by `make docs`."""

from hivemem.attributes import Services
from hivemem.sync.artifacts import BlockingArtifacts
from hivemem.sync.loop_thread import LoopThread
from hivemem.sync.services import BlockingAgentsOperations, BlockingMemoryOperations, BlockingWindowsOperations
from hivemem.sync.sessions import BlockingSessions
from hivemem.sync.vectors import BlockingVectors


class BlockingServices:
    """Every service of the fleet, by its name."""

    def __init__(self, services: Services, thread: LoopThread) -> None:
        self.sessions = BlockingSessions(services.sessions, thread)
        self.memory = BlockingMemoryOperations(services.memory, thread)
        self.artifacts = BlockingArtifacts(services.artifacts, thread)
        self.vectors = BlockingVectors(services.vectors, thread)
        self.agents = BlockingAgentsOperations(services.agents, thread)
        self.windows = BlockingWindowsOperations(services.windows, thread)
