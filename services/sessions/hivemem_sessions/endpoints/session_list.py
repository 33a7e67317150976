"""The session list, newest or last updated first. It reads the most selective index and filters its pages by the
other fields."""

from collections.abc import Mapping
from functools import partial
from typing import Final, NamedTuple

from hivemem_contracts.errors import InvalidRequest, Unavailable
from hivemem_contracts.limits import REPLY_BYTES
from hivemem_contracts.sessions import operations
from hivemem_contracts.sessions.models import Session
from hivemem_contracts.sessions.replies import SessionPage
from hivemem_contracts.sessions.requests import ListSessions
from hivemem_runtime.ledger.entity import Scalar
from hivemem_runtime.ledger.port import Head, Ledger, value_of
from hivemem_runtime.service import Call, Service
from hivemem_sessions.decisions.preconditions import WRITABLE
from hivemem_sessions.endpoints.session_views import session_model
from hivemem_sessions.entities import APP, SCOPE, SESSION, App, SessionHead, scope_ids
from hivemem_sessions.entities.state_indexes import by_creation, by_update, has_value, index_value, slot_field

PAGE_SESSIONS: Final = 100
PENDING_RETRY_MS: Final = 250
PAGES_EXAMINED: Final = 10
"""The maximum number of index pages that one answer reads. A page cut short by it has a cursor."""


def bind(service: Service) -> None:
    service.handler(operations.LIST, partial(list_sessions, service.ledger))


class ListIndex(NamedTuple):
    name: str
    fields: tuple[str, ...]


BY_CREATION: Final = (
    ListIndex("app_and_user", ("app_name", "user_id")),
    ListIndex("user", ("user_id",)),
    ListIndex("project", ("project_id",)),
    ListIndex("app", ("app_name",)),
    ListIndex("status_by_creation", ("status",)),
    ListIndex("creation", ()),
)
"""The indexes in the order of creation, the most selective first."""
BY_UPDATE: Final = (
    ListIndex("user_by_update", ("user_id",)),
    ListIndex("status", ("status",)),
    ListIndex("update", ()),
)


async def require_indexed(ledger: Ledger, tenant: str, body: ListSessions) -> Mapping[str, int]:
    """Return the slots of the app's state indexes. Raises `InvalidRequest` for a key of `where` without an index, and
    `Unavailable` while its index is built."""
    if body.where is None:
        return {}
    if body.app_name is None:
        raise InvalidRequest("where: state indexes are declared per app, so it needs app_name", field="where")
    app = value_of(await ledger.head(APP, tenant, body.app_name)) or App({}, 0, [])
    for key in body.where:
        if key not in app.slots:
            declared = ", ".join(map(repr, app.slots)) or "none"
            raise InvalidRequest(
                f"where.{key}: app {body.app_name!r} has no state index of this name, but {declared}; "
                "app_put declares them",
                field=f"where.{key}",
            )
        if key in app.pending:
            raise Unavailable(
                f"where.{key}: this state index of app {body.app_name!r} does not have the earlier sessions yet",
                field=f"where.{key}",
                retry_after_ms=PENDING_RETRY_MS,
            )
    return app.slots


def choose_index(body: ListSessions, slots: Mapping[str, int]) -> tuple[str, dict[str, Scalar]]:
    """Return the most selective index whose fields are all given, in the order of the request. `slots` are the state
    indexes of the app; a user has fewer sessions than most values of a state."""
    creation, update = (
        next(index for index in indexes if all(getattr(body, field) is not None for field in index.fields))
        for indexes in (BY_CREATION, BY_UPDATE)
    )
    last_updated_first = body.sort == "-updated_at" or (body.sort is None and creation.name == "status_by_creation")
    if body.where and body.app_name is not None and body.user_id is None:
        key, value = next(iter(body.where.items()))
        name = by_update(slots[key]) if last_updated_first else by_creation(slots[key])
        return name, {slot_field(slots[key]): index_value(body.app_name, key, value)}
    chosen = update if last_updated_first else creation
    return chosen.name, {field: getattr(body, field) for field in chosen.fields}


def fits(body: ListSessions, session: SessionHead) -> bool:
    wanted = (
        (body.status, session.status),
        (body.user_id, session.user_id),
        (body.app_name, session.app_name),
        (body.project_id, session.project_id),
        (body.active, session.status in WRITABLE),
    )
    if not all(asked is None or asked == found for asked, found in wanted):
        return False
    return all(has_value(session.state, key, value) for key, value in (body.where or {}).items())


async def list_sessions(ledger: Ledger, call: Call, body: ListSessions) -> SessionPage:
    tenant = call.sender.tenant
    index, equals = choose_index(body, await require_indexed(ledger, tenant, body))
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
