"""State of sessions and of the scopes that they share, as key-value deltas."""

from dataclasses import dataclass
from typing import Any, Final

from hivemem_runtime.ledger.entity import Entity, Stamp
from hivemem_sessions.entities.announcements import announce_scope

SHARED_PREFIXES: Final = ("user:", "app:", "project:")
TEMPORARY_PREFIX: Final = "temp:"
SNAPSHOT_EVERY: Final = 100
"""The maximum number of records that are replayed to rebuild an old revision."""

State = dict[str, Any]


def is_shared(key: str) -> bool:
    return key.startswith(SHARED_PREFIXES)


def merge(state: State, delta: State) -> State:
    """Return the state after a delta. A null value deletes its key."""
    merged = {**state, **delta}
    return {key: value for key, value in merged.items() if value is not None}


def without_temporary(state: State) -> State:
    return {key: value for key, value in state.items() if not key.startswith(TEMPORARY_PREFIX)}


@dataclass(frozen=True, slots=True)
class ScopeHead:
    """The state shared by all sessions of a user, an app or a project. Keys keep their prefix."""

    state: State
    state_bytes: int


@dataclass(frozen=True, slots=True)
class ScopeRecord:
    delta: State
    state_bytes: int
    session_id: str


def evolve_scope(head: ScopeHead | None, record: ScopeRecord, stamp: Stamp) -> ScopeHead:
    return ScopeHead(merge(head.state if head else {}, record.delta), record.state_bytes)


SCOPE: Final = Entity(
    name="state",
    head=ScopeHead,
    record=ScopeRecord,
    evolve=evolve_scope,
    announce=announce_scope,
    told_as={"state": lambda namespace, key: namespace},
    indexed=lambda head: {},
    snapshot_every=SNAPSHOT_EVERY,
)


def scope_ids(user_id: str, app_name: str, project_id: str | None) -> dict[str, str]:
    """Return the ids of the scopes that a session shares, by key prefix."""
    ids = {"user:": f"user:{user_id}", "app:": f"app:{app_name}"}
    if project_id is not None:
        ids["project:"] = f"project:{project_id}"
    return ids
