"""The operations that fork a session at its newest or an older revision, and that find what forks share."""

from functools import partial
from typing import Final

from hivemem_contracts.errors import NotFound
from hivemem_contracts.identifiers import new_id
from hivemem_contracts.sessions import operations, requests
from hivemem_contracts.sessions.replies import SessionWritten, SharedSessions
from hivemem_runtime.ledger.pages import pages
from hivemem_runtime.ledger.port import Decision, Head, Heads, Ledger
from hivemem_runtime.service import Call, Service
from hivemem_sessions.decisions import fork_session
from hivemem_sessions.endpoints.session_views import session_at_revision, session_now, written_session
from hivemem_sessions.entities import SESSION, SHARE, SessionHead
from hivemem_sessions.entities.announcements import require_announceable

SHARES_AT_ONCE: Final = 100


def bind(service: Service) -> None:
    service.handler(operations.FORK, partial(fork, service.ledger))
    service.handler(operations.SHARED, partial(find_shared, service.ledger))


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


async def find_shared(ledger: Ledger, call: Call, body: requests.FindShared) -> SharedSessions:
    """Return the sessions that living forks share. Of a deleted session the answer is final once it is "no", because
    it cannot be forked any more."""
    found = [session_id for session_id in body.session_ids if await _is_shared(ledger, call.sender.tenant, session_id)]
    return SharedSessions(session_ids=found)


async def _is_shared(ledger: Ledger, tenant: str, session_id: str) -> bool:
    """Return whether a fork lives. The shares of a deleted one end a moment after its deletion is announced.

    Between two reads, the last fork may be forked and then deleted. So "no" needs the same forks before and after they
    were found deleted.
    """
    deleted: set[str] | None = None
    while (forks := await _forks(ledger, tenant, session_id)) != deleted:
        for start in range(0, len(forks), SHARES_AT_ONCE):
            found = await ledger.heads(SESSION, tenant, sorted(forks)[start : start + SHARES_AT_ONCE])
            if any(fork.value is not None for fork in found.values()):
                return True
        deleted = forks
    return False


async def _forks(ledger: Ledger, tenant: str, session_id: str) -> set[str]:
    """Return the forks that share a session, and recently deleted ones."""
    return {
        head.value.fork
        async for shares in pages(
            lambda cursor: ledger.find(
                SHARE, tenant, "owner", equals={"owner": session_id}, cursor=cursor, limit=SHARES_AT_ONCE
            )
        )
        for head in shares
        if head.value is not None
    }
