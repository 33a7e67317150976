"""The operations that set and read the state of a session and its shared scopes."""

from functools import partial

from hivemem_contracts.sessions import operations, replies, requests
from hivemem_runtime.ledger.port import Ledger, Outcome, Write
from hivemem_runtime.service import Call, Service
from hivemem_sessions.decisions import set_state
from hivemem_sessions.endpoints.session_views import session_now, whole_state
from hivemem_sessions.entities import SCOPE, SESSION, is_shared, scope_ids


def bind(service: Service) -> None:
    service.command(operations.STATE_SET, plan_state_set, answer_state_set)
    service.handler(operations.STATE_GET, partial(get_state, service.ledger))


def plan_state_set(call: Call, body: requests.SetState) -> Write:
    return call.write(SESSION, body.session_id, lambda heads, now: set_state(heads, body))


def answer_state_set(call: Call, body: requests.SetState, outcome: Outcome) -> replies.StateSet:
    assert outcome.stamp is not None
    return replies.StateSet(
        session_id=body.session_id, key=body.key, revision=outcome.stamp.version, duplicate=outcome.duplicate
    )


async def get_state(ledger: Ledger, call: Call, body: requests.GetState) -> replies.StateView:
    tenant = call.sender.tenant
    head, session = await session_now(ledger, tenant, body.session_id)
    if body.key is None:
        return replies.StateView(state=await whole_state(ledger, tenant, session), revision=head.version)
    if not is_shared(body.key):
        return replies.StateView(value=session.state.get(body.key), revision=head.version)
    id = scope_ids(session.user_id, session.app_name, session.project_id).get(body.key.partition(":")[0] + ":")
    scope = await ledger.head(SCOPE, tenant, id) if id else None
    value = scope.value.state.get(body.key) if scope and scope.value else None
    return replies.StateView(value=value, revision=scope.version if scope else 0)
