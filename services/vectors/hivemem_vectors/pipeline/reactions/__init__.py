"""What the vectors worker does when something changed."""

from hivemem_runtime.bus.reacting import Reaction
from hivemem_runtime.ledger.port import Ledger
from hivemem_vectors.pipeline.endpoints.indexing import Indexer
from hivemem_vectors.pipeline.endpoints.peers import SessionService
from hivemem_vectors.pipeline.reactions.memories import memories_reaction
from hivemem_vectors.pipeline.reactions.sessions import sessions_reaction


def reactions(ledger: Ledger, indexer: Indexer, sessions: SessionService) -> tuple[Reaction, ...]:
    return memories_reaction(indexer), sessions_reaction(ledger, indexer, sessions)
