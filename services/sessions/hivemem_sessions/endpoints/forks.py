"""The operation that forks a session at its newest or an older revision."""

from functools import partial

from hivemem_contracts.errors import NotFound
from hivemem_contracts.identifiers import new_id
from hivemem_contracts.sessions import operations, requests
from hivemem_contracts.sessions.replies import SessionWritten
from hivemem_runtime.ledger.port import Decision, Head, Heads, Ledger
from hivemem_runtime.service import Call, Service
from hivemem_sessions.decisions import fork_session
from hivemem_sessions.endpoints.session_views import session_at_revision, session_now, written_session
from hivemem_sessions.entities import SESSION, SessionHead
from hivemem_sessions.entities.announcements import require_announceable


def bind(service: Service) -> None:
    service.handler(operations.FORK, partial(fork, service.ledger))


async def fork(ledger: Ledger, call: Call, body: requests.ForkSession) -> SessionWritten:
    tenant = call.sender.tenant
    session_id = body.new_session_id or new_id()
    require_announceable(tenant, session_id, ())
    origin = await _origin(ledger, tenant, body)

    def decide(heads: Heads, now: int) -> Decision:
        # Raised inside the decision, so that a retry still gets its fork after the origin is deleted.
        if isinstance(origin, NotFound):
            raise origin
        return fork_session(heads, body.session_id, origin, session_id)

    outcome = await ledger.commit(call.write(SESSION, session_id, decide))
    return await written_session(ledger, tenant, outcome)


async def _origin(ledger: Ledger, tenant: str, body: requests.ForkSession) -> Head[SessionHead] | NotFound:
    try:
        if body.revision is None:
            return (await session_now(ledger, tenant, body.session_id))[0]
        return (await session_at_revision(ledger, tenant, body.session_id, body.revision))[0]
    except NotFound as error:
        return error
