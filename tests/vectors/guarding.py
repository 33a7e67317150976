"""A guard around a store, as the worker builds it."""

import time
from collections.abc import Callable

from hivemem_runtime.circuit_breaker import CircuitBreaker
from hivemem_runtime.ledger.port import Ledger
from hivemem_vectors.own.decisions import schema_of
from hivemem_vectors.pipeline.decisions.points import FIELDS
from hivemem_vectors.pipeline.endpoints.stages import BROKEN_BY
from hivemem_vectors.stores.guarded import GuardedStore
from hivemem_vectors.stores.ports import Schema, VectorStore
from hivemem_vectors.upkeep.reactions.sweeper import LostCollections


def guarded(
    store: VectorStore,
    ledger: Ledger,
    *,
    model: str = "any",
    dimension: int = 1,
    lost: LostCollections | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> GuardedStore:
    items = Schema(dimension, model, FIELDS)
    breaker = CircuitBreaker("the vector store", clock, broken_by=BROKEN_BY)
    return GuardedStore(store, breaker, lost or LostCollections(ledger), lambda name: schema_of(name, items))
