"""All services of the fleet and all changes that they announce: the source of everything derived from the contracts."""

from typing import Final

from hivemem_contracts.artifacts import changes as artifacts
from hivemem_contracts.artifacts.operations import ARTIFACTS
from hivemem_contracts.changes import ChangeKind
from hivemem_contracts.memory import changes as memory
from hivemem_contracts.memory.operations import MEMORY
from hivemem_contracts.operations import ServiceContract
from hivemem_contracts.sessions import changes as sessions
from hivemem_contracts.sessions.operations import SESSIONS
from hivemem_contracts.vectors import changes as vectors
from hivemem_contracts.vectors.operations import VECTORS

SERVICES: Final[tuple[ServiceContract, ...]] = (SESSIONS, MEMORY, ARTIFACTS, VECTORS)
CHANGES: Final[tuple[ChangeKind, ...]] = (*sessions.CHANGES, *memory.CHANGES, *artifacts.CHANGES, *vectors.CHANGES)
