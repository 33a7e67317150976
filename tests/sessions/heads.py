"""A store of nothing but heads, for decisions: what they append is applied at once."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from hivemem_contracts.sessions.models import NewEvent
from hivemem_contracts.sessions.requests import AppendEvent, CreateSession
from hivemem_runtime.ledger.entity import AnyEntity, Entity, HeadT, RecordT, Stamp
from hivemem_runtime.ledger.port import Append, Head
from hivemem_sessions.decisions import append_event, create_session
from hivemem_sessions.entities import SCOPE, SESSION, ScopeHead, SessionHead, SessionRecord


@dataclass
class DictHeads:
    """`at` is a clock that goes on by one for each decision."""

    heads: dict[tuple[str, str], Head[Any]] = field(default_factory=dict[tuple[str, str], Head[Any]])
    records: dict[tuple[str, str], list[tuple[Stamp, Any]]] = field(
        default_factory=dict[tuple[str, str], list[tuple[Stamp, Any]]]
    )
    at: int = 0

    def __call__(self, entity: Entity[HeadT, RecordT], id: str) -> Head[HeadT] | None:
        return cast("Head[HeadT] | None", self.heads.get((entity.name, id)))

    def apply(self, decision: Sequence[Append[Any, Any]]) -> None:
        self.at += 1
        for append in decision:
            key = (append.entity.name, append.id)
            before = self.heads.get(key)
            version = before.version + 1 if before else 1
            stamp = Stamp("t", append.entity.name, append.id, version, self.at, "bot")
            value = append.entity.evolve(before.value if before else None, append.record, stamp)
            self.heads[key] = Head(append.id, version, self.at, value)
            self.records.setdefault(key, []).append((stamp, append.record))

    def erase(self, entity: AnyEntity, id: str) -> None:
        self.at += 1
        before = self.heads[entity.name, id]
        self.heads[entity.name, id] = Head(id, before.version + 1, self.at, None)

    def create(self, session_id: str = "s1", **fields: Any) -> None:
        command = CreateSession.model_validate({"app_name": "app", "user_id": "user", **fields})
        self.apply(create_session(self, command, session_id))

    def append(self, session_id: str = "s1", type: str = "note", **fields: Any) -> SessionRecord:
        command = AppendEvent(session_id=session_id, event=NewEvent(type=type), **fields)
        decision = append_event(self, command, f"e{self.at}", "bot")
        self.apply(decision)
        return cast("SessionRecord", decision[0].record)

    def session(self, session_id: str = "s1") -> SessionHead:
        head = self(SESSION, session_id)
        assert head is not None
        assert head.value is not None
        return head.value

    def scope(self, id: str) -> ScopeHead:
        head = self(SCOPE, id)
        assert head is not None
        assert head.value is not None
        return head.value
