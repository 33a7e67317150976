"""All services of the fleet, and all that they announce, for whatever is derived from every one of them."""

from typing import Final

from hivemem_contracts.changes import ChangeKind
from hivemem_contracts.operations import ServiceContract
from hivemem_contracts.sessions import changes as sessions
from hivemem_contracts.sessions.operations import SESSIONS

SERVICES: Final[tuple[ServiceContract, ...]] = (SESSIONS,)
CHANGES: Final[tuple[ChangeKind, ...]] = sessions.CHANGES
