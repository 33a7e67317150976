"""The reactions of the memory worker to changes on the feed."""

from hivemem_memory.endpoints.audit_trail import AuditTrail
from hivemem_memory.endpoints.erasures import Eraser
from hivemem_memory.reactions.audit_feed import audit_reaction
from hivemem_memory.reactions.sessions import sessions_reaction
from hivemem_runtime.bus.reactions.runner import Reaction
from hivemem_runtime.ledger.port import Ledger


def reactions(ledger: Ledger, eraser: Eraser, trail: AuditTrail) -> tuple[Reaction, ...]:
    return audit_reaction(ledger, trail), sessions_reaction(ledger, eraser)
