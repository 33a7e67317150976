"""A simple in-memory model of the sessions service, with the answer to every read."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .hive import Body

SHARED = ("user:", "app:", "project:")
OPEN = ("created", "active", "paused")
FOLLOWS = {
    "created": ("active", "terminated"),
    "active": ("paused", "terminated"),
    "paused": ("active", "terminated"),
    "terminated": ("archived",),
    "archived": (),
}


class No(Exception):
    """A refusal, by its code."""

    def __init__(self, code: int) -> None:
        super().__init__(str(code))
        self.code = code


@dataclass
class ModelSession:
    app: str
    user: str
    project: str | None
    status: str = "created"
    state: Body = field(default_factory=dict[str, Any])
    events: list[Body] = field(default_factory=list[Body])
    revision: int = 0
    views: dict[int, Body] = field(default_factory=dict[int, Body])
    """The session at each revision of this life, as it was right after the commit."""
    event_ids: dict[str, Body] = field(default_factory=dict[str, Body])

    @property
    def scopes(self) -> list[str]:
        names = [f"user:{self.user}", f"app:{self.app}"]
        return [*names, f"project:{self.project}"] if self.project else names


@dataclass
class Model:
    sessions: dict[str, ModelSession] = field(default_factory=dict[str, ModelSession])
    fences: dict[str, int] = field(default_factory=dict[str, int])
    scopes: dict[str, Body] = field(default_factory=dict[str, Body])
    scope_revisions: dict[str, int] = field(default_factory=dict[str, int])
    told: dict[str, list[tuple[str, int]]] = field(default_factory=dict[str, list[tuple[str, int]]])

    def view(self, session_id: str) -> Body:
        session = self.sessions[session_id]
        state = dict(session.state)
        for scope in session.scopes:
            state |= self.scopes.get(scope, {})
        return {
            "session_id": session_id,
            "app_name": session.app,
            "user_id": session.user,
            "project_id": session.project,
            "status": session.status,
            "state": state,
            "revision": session.revision,
            "event_count": len(session.events),
        }

    def find(self, session_id: str) -> ModelSession:
        if session_id not in self.sessions:
            raise No(40401)
        return self.sessions[session_id]

    def create(
        self, session_id: str, app: str, user: str, project: str | None, initial: Body, nulls: list[str]
    ) -> Body:
        if session_id in self.sessions:
            raise No(40901)
        session = ModelSession(app, user, project)
        self._check_project(session, [*initial, *nulls])
        session.revision = self.fences.get(session_id, 0)
        self.sessions[session_id] = session
        self._merge(session, initial, nulls)
        return self._committed(session_id, "created")

    def append(self, session_id: str, event: Body, delta: Body, nulls: list[str], expected: int | None) -> Body:
        session = self.find(session_id)
        if event["event_id"] in session.event_ids:
            return {**session.event_ids[event["event_id"]], "duplicate": True}
        if expected is not None and expected != session.revision:
            raise No(40902)
        if session.status not in OPEN:
            raise No(40903)
        self._check_project(session, [*delta, *nulls])
        change = {"state_delta": delta, "state_nulls": nulls or None}
        session.events.append({**event, "sequence": len(session.events) + 1, **change})
        self._tell(f"event.{session_id}", "appended", len(session.events))
        self._merge(session, delta, nulls)
        if session.status == "created":
            session.status = "active"
            self._committed(session_id, "status_changed")
        else:
            self._committed(session_id, None)
        answer = {
            "session_id": session_id,
            "event_id": event["event_id"],
            "sequence": len(session.events),
            "revision": session.revision,
            "duplicate": False,
        }
        session.event_ids[event["event_id"]] = answer
        return answer

    def state_set(self, session_id: str, key: str, value: Any, expected: int | None) -> int:
        session = self.find(session_id)
        if session.status not in OPEN:
            raise No(40903)
        self._check_project(session, [key])
        if key.startswith(SHARED):
            scope = self._scope(session, key)
            if expected is not None and expected != self.scope_revisions.get(scope, 0):
                raise No(40902)
            self._merge(session, {key: value})
            return self.scope_revisions[scope]
        if expected is not None and expected != session.revision:
            raise No(40902)
        self._merge(session, {key: value})
        self._committed(session_id, "state_changed")
        return session.revision

    def set_status(self, session_id: str, status: str) -> Body:
        session = self.find(session_id)
        if status not in FOLLOWS[session.status]:
            raise No(40903)
        session.status = status
        if status == "terminated":
            session.state = {key: value for key, value in session.state.items() if not key.startswith("temp:")}
        return self._committed(session_id, "archived" if status == "archived" else "status_changed")

    def fork(self, session_id: str, revision: int, fork_id: str) -> Body:
        origin = self.find(session_id)
        if revision not in origin.views:
            raise No(40401)
        if fork_id in self.sessions:
            raise No(40901)
        view = origin.views[revision]
        state = {key: value for key, value in view["own"].items() if not key.startswith("temp:")}
        fork = ModelSession(origin.app, origin.user, origin.project, state=state)
        fork.events = copy.deepcopy(origin.events[: view["event_count"]])
        fork.status = "active" if fork.events else "created"
        fork.revision = self.fences.get(fork_id, 0)
        self.sessions[fork_id] = fork
        return self._committed(fork_id, "forked")

    def delete(self, session_id: str) -> int:
        session = self.find(session_id)
        self.fences[session_id] = session.revision + 1
        del self.sessions[session_id]
        self._tell(f"session.{session_id}", "deleted", session.revision + 1)
        return session.revision + 1

    def _check_project(self, session: ModelSession, keys: list[str]) -> None:
        if session.project is None and any(key.startswith("project:") for key in keys):
            raise No(40001)

    def _scope(self, session: ModelSession, key: str) -> str:
        return next(scope for scope in session.scopes if scope.split(":")[0] == key.split(":")[0])

    def _merge(self, session: ModelSession, delta: Body, nulls: Sequence[str] = ()) -> None:
        touched: list[str] = []
        for key, value in (*delta.items(), *((key, None) for key in nulls)):
            state = session.state
            if key.startswith(SHARED):
                scope = self._scope(session, key)
                touched.append(scope)
                state = self.scopes.setdefault(scope, {})
            state.pop(key, None)
            if value is not None or key in nulls:
                state[key] = value
        for scope in dict.fromkeys(touched):
            self.scope_revisions[scope] = self.scope_revisions.get(scope, 0) + 1
            self._tell(f"state.{scope.replace(':', '.')}", "changed", self.scope_revisions[scope])

    def _committed(self, session_id: str, operation: str | None) -> Body:
        session = self.sessions[session_id]
        session.revision += 1
        view = self.view(session_id)
        session.views[session.revision] = {**view, "own": dict(session.state)}
        if operation is not None:
            self._tell(f"session.{session_id}", operation, session.revision)
        return view

    def _tell(self, address: str, operation: str, version: int) -> None:
        self.told.setdefault(address, []).append((operation, version))
