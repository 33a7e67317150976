"""The entities of the sessions worker: sessions with their events, shared state scopes, machines, shares,
deletions, apps."""

from typing import Final

from hivemem_sessions.entities.apps import APP, App
from hivemem_sessions.entities.machines import MACHINE, MachineHead, MachineRecord
from hivemem_sessions.entities.sessions import INDEXED, SESSION, SessionHead, SessionRecord, evolve_session
from hivemem_sessions.entities.shares import DELETION, SHARE, Deletion, Share, share_id
from hivemem_sessions.entities.state import (
    SCOPE,
    SHARED_PREFIXES,
    SNAPSHOT_EVERY,
    TEMPORARY_PREFIX,
    ScopeHead,
    ScopeRecord,
    State,
    StateChange,
    is_own,
    is_shared,
    merge,
    scope_ids,
    without_temporary,
)

ENTITIES: Final = (SESSION, SCOPE, MACHINE, SHARE, DELETION, APP)

__all__ = [
    "APP",
    "DELETION",
    "ENTITIES",
    "INDEXED",
    "MACHINE",
    "SCOPE",
    "SESSION",
    "SHARE",
    "SHARED_PREFIXES",
    "SNAPSHOT_EVERY",
    "TEMPORARY_PREFIX",
    "App",
    "Deletion",
    "MachineHead",
    "MachineRecord",
    "ScopeHead",
    "ScopeRecord",
    "SessionHead",
    "SessionRecord",
    "Share",
    "State",
    "StateChange",
    "evolve_session",
    "is_own",
    "is_shared",
    "merge",
    "scope_ids",
    "share_id",
    "without_temporary",
]
