"""The services as attributes of a client, generated from the contracts by `make docs`."""

from typing import TYPE_CHECKING

from hivemem.artifacts import Artifacts
from hivemem.services.agents import AgentsOperations
from hivemem.services.memory import MemoryOperations
from hivemem.services.windows import WindowsOperations
from hivemem.sessions import Sessions
from hivemem.vectors import Vectors

if TYPE_CHECKING:
    from hivemem.hive import Hive


class Services:
    """Every service of the fleet, by its name."""

    def __init__(self, hive: "Hive") -> None:
        self.sessions = Sessions(hive)
        self.memory = MemoryOperations(hive)
        self.artifacts = Artifacts(hive)
        self.vectors = Vectors(hive)
        self.agents = AgentsOperations(hive)
        self.windows = WindowsOperations(hive)
