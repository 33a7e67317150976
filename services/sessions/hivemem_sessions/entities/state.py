"""State of sessions and of the scopes that they share, as key-value deltas."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from hivemem_runtime.ledger.entity import Entity, Stamp
from hivemem_sessions.entities.announcements import announce_scope

SHARED_PREFIXES: Final = ("user:", "app:", "project:")
TEMPORARY_PREFIX: Final = "temp:"
SNAPSHOT_EVERY: Final = 100
"""The maximum number of records that are replayed to rebuild an old revision."""

State = dict[str, Any]


def is_shared(key: str) -> bool:
    return key.startswith(SHARED_PREFIXES)


def is_own(key: str) -> bool:
    return not key.startswith(SHARED_PREFIXES)


class StateChange(NamedTuple):
    """What one write does to state: a delta, in which null deletes a key, and the keys that it sets to null."""

    delta: State
    nulls: Sequence[str] = ()

    def part(self, belongs: Callable[[str], bool]) -> "StateChange":
        """Return the change of the keys that belong to one scope."""
        delta = {key: value for key, value in self.delta.items() if belongs(key)}
        return StateChange(delta, [key for key in self.nulls if belongs(key)])

    @property
    def keys(self) -> tuple[str, ...]:
        return (*self.delta, *self.nulls)

    @property
    def entries(self) -> State:
        """The keys that exist after the change, with their values."""
        return merge({}, self)


def merge(state: State, change: StateChange) -> State:
    """Return the state after a change."""
    merged = {**state, **change.delta}
    for key, value in change.delta.items():
        if value is None:
            del merged[key]
    for key in change.nulls:
        merged[key] = None
    return merged


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
    nulls: list[str] | None = None


def evolve_scope(head: ScopeHead | None, record: ScopeRecord, stamp: Stamp) -> ScopeHead:
    change = StateChange(record.delta, record.nulls or ())
    return ScopeHead(merge(head.state if head else {}, change), record.state_bytes)


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
