"""What the memory worker does when something changed."""

from hivemem_memory.endpoints.auditing import Trail
from hivemem_memory.endpoints.erasing import Eraser
from hivemem_memory.reactions.auditing import audit_reaction
from hivemem_memory.reactions.sessions import sessions_reaction
from hivemem_runtime.bus.reacting import Reaction
from hivemem_runtime.ledger.port import Ledger


def reactions(ledger: Ledger, eraser: Eraser, trail: Trail) -> tuple[Reaction, ...]:
    return audit_reaction(ledger, trail), sessions_reaction(ledger, eraser)
