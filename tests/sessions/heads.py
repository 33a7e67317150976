"""A store of heads alone, for the decisions about sessions."""

from typing import Any, cast

from hivemem_contracts.sessions.models import NewEvent
from hivemem_contracts.sessions.requests import AppendEvent, CreateSession
from hivemem_sessions.decisions import append_event, create_session
from hivemem_sessions.entities import SCOPE, SESSION, ScopeHead, SessionHead, SessionRecord
from hivemem_testing import heads


class DictHeads(heads.DictHeads):
    """Applies the appends of decisions about sessions at once."""

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
