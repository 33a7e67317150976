"""The session list, newest first. It reads the most selective index and filters its pages by the other fields."""

from functools import partial
from typing import Final

from hivemem_contracts.limits import REPLY_BYTES
from hivemem_contracts.sessions import operations
from hivemem_contracts.sessions.models import Session
from hivemem_contracts.sessions.replies import SessionPage
from hivemem_contracts.sessions.requests import ListSessions
from hivemem_runtime.ledger.entity import Scalar
from hivemem_runtime.ledger.port import Head, Ledger
from hivemem_runtime.service import Call, Service
from hivemem_sessions.decisions.preconditions import WRITABLE
from hivemem_sessions.endpoints.session_views import session_model
from hivemem_sessions.entities import SCOPE, SESSION, SessionHead, scope_ids

PAGE_SESSIONS: Final = 100
PAGES_EXAMINED: Final = 10
"""The maximum number of index pages that one answer reads. A page cut short by it has a cursor."""


def bind(service: Service) -> None:
    service.handler(operations.LIST, partial(list_sessions, service.ledger))


def choose_index(body: ListSessions) -> tuple[str, dict[str, Scalar]]:
    """Return the most selective declared index whose fields are all given."""
    if body.app_name is not None and body.user_id is not None:
        return "app_and_user", {"app_name": body.app_name, "user_id": body.user_id}
    if body.user_id is not None:
        return "user", {"user_id": body.user_id}
    if body.project_id is not None:
        return "project", {"project_id": body.project_id}
    if body.app_name is not None:
        return "app", {"app_name": body.app_name}
    if body.status is not None:
        return "status", {"status": body.status}
    return "creation", {}


def fits(body: ListSessions, session: SessionHead) -> bool:
    wanted = (
        (body.status, session.status),
        (body.user_id, session.user_id),
        (body.app_name, session.app_name),
        (body.project_id, session.project_id),
        (body.active, session.status in WRITABLE),
    )
    return all(asked is None or asked == found for asked, found in wanted)


async def list_sessions(ledger: Ledger, call: Call, body: ListSessions) -> SessionPage:
    tenant = call.sender.tenant
    index, equals = choose_index(body)
    found: list[Session] = []
    cursor = body.cursor
    left = REPLY_BYTES
    for _ in range(PAGES_EXAMINED):
        limit = min(body.limit - len(found), PAGE_SESSIONS)
        while True:
            page = await ledger.find(SESSION, tenant, index, equals=equals, reverse=True, cursor=cursor, limit=limit)
            fitting = [head for head in page.items if head.value is not None and fits(body, head.value)]
            sessions = await _with_shared_state(ledger, tenant, fitting)
            size = sum(map(_bytes, sessions))
            if size <= left or len(page.items) == 1:
                break
            limit = len(page.items) // 2
        if size > left and found:
            break
        found += sessions
        left -= size
        cursor = page.cursor
        if cursor is None or len(found) == body.limit:
            break
    return SessionPage.model_construct(items=found, cursor=cursor)


def _bytes(session: Session) -> int:
    return len(session.__pydantic_serializer__.to_json(session))


async def _with_shared_state(ledger: Ledger, tenant: str, heads: list[Head[SessionHead]]) -> list[Session]:
    """Return the sessions of a page with their shared state. All scopes are read in one request."""
    present = [(head, head.value) for head in heads if head.value is not None]
    ids = {
        id for _, session in present for id in scope_ids(session.user_id, session.app_name, session.project_id).values()
    }
    scopes = await ledger.heads(SCOPE, tenant, sorted(ids))
    sessions: list[Session] = []
    for head, session in present:
        state = dict(session.state)
        for id in scope_ids(session.user_id, session.app_name, session.project_id).values():
            scope = scopes.get(id)
            state.update(scope.value.state if scope and scope.value else {})
        sessions.append(session_model(head, session, state))
    return sessions
