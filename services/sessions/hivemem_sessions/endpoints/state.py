"""The operations that set and read the state of a session and its shared scopes."""

from functools import partial

from hivemem_contracts.errors import InvalidRequest
from hivemem_contracts.sessions import operations, replies, requests
from hivemem_runtime.ledger.port import Decision, Heads, Ledger, Outcome, Write
from hivemem_runtime.service import Call, Service
from hivemem_sessions.decisions import set_state
from hivemem_sessions.decisions.large_values import check_state_value
from hivemem_sessions.endpoints.session_views import session_now, whole_state
from hivemem_sessions.entities import SCOPE, SESSION, State, is_shared, scope_ids


def bind(service: Service) -> None:
    service.command(operations.STATE_SET, plan_state_set, answer_state_set)
    service.handler(operations.STATE_GET, partial(get_state, service.ledger))


def plan_state_set(call: Call, body: requests.SetState) -> Write:
    def decide(heads: Heads, now: int) -> Decision:
        check_state_value(call.sender.tenant, body.session_id, body.key, body.value, "value")
        return set_state(heads, body)

    return call.write(SESSION, body.session_id, decide)


def answer_state_set(call: Call, body: requests.SetState, outcome: Outcome) -> replies.StateSet:
    assert outcome.stamp is not None
    return replies.StateSet(
        session_id=body.session_id, key=body.key, revision=outcome.stamp.version, duplicate=outcome.duplicate
    )


async def get_state(ledger: Ledger, call: Call, body: requests.GetState) -> replies.StateView:
    tenant = call.sender.tenant
    if body.session_id is None:
        return await _scope_view(ledger, tenant, _scope_id(body), body.key)
    if body.scope is not None or body.scope_id is not None:
        field = "scope" if body.scope is not None else "scope_id"
        raise InvalidRequest(f"{field}: either this or session_id, not both", field=field)
    head, session = await session_now(ledger, tenant, body.session_id)
    if body.key is None:
        return replies.StateView(state=await whole_state(ledger, tenant, session), revision=head.version)
    if not is_shared(body.key):
        return _key_view(session.state, body.key, head.version)
    id = scope_ids(session.user_id, session.app_name, session.project_id).get(body.key.partition(":")[0] + ":")
    return await _scope_view(ledger, tenant, id, body.key) if id else _key_view({}, body.key, 0)


def _scope_id(body: requests.GetState) -> str:
    """Return the id of the scope that a request without a session names."""
    if body.scope is None and body.scope_id is None:
        raise InvalidRequest("session_id: either this or scope and scope_id are required", field="session_id")
    if body.scope is None or body.scope_id is None:
        field = "scope" if body.scope is None else "scope_id"
        raise InvalidRequest(f"{field}: scope and scope_id are required together", field=field)
    if body.key is not None and not body.key.startswith(f"{body.scope}:"):
        raise InvalidRequest(f"key: keys of this scope begin with '{body.scope}:'", field="key")
    return f"{body.scope}:{body.scope_id}"


async def _scope_view(ledger: Ledger, tenant: str, id: str, key: str | None) -> replies.StateView:
    scope = await ledger.head(SCOPE, tenant, id)
    state = scope.value.state if scope and scope.value else {}
    revision = scope.version if scope else 0
    return replies.StateView(state=state, revision=revision) if key is None else _key_view(state, key, revision)


def _key_view(state: State, key: str, revision: int) -> replies.StateView:
    return replies.StateView(value=state.get(key), exists=key in state, revision=revision)
