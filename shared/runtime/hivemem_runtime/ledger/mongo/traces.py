"""Traces of attempts to commit, by which one whose answer was lost is known again.

A trace is a document of its own, where no record could say it: heads say nothing of who wrote them before the last one.
It outlives any trying again, and goes with the next trace of the same worker, or by its time where that is gone.
"""

from typing import Final

from hivemem_contracts.identifiers import time_from_microseconds
from hivemem_runtime.ledger.mongo.documents import REQUESTS, trace_id
from hivemem_runtime.ledger.mongo.driver import Query
from hivemem_runtime.ledger.mongo.errors import translated
from hivemem_runtime.ledger.mongo.operations import Operations
from hivemem_runtime.ledger.mongo.workbench import Workbench

_KEPT_MICROSECONDS: Final = 3_600 * 1_000_000
"""Far more than anybody tries: the server forgets by its own clock, which need not be the worker's."""


def leave_trace(bench: Workbench, operations: Operations, token: str) -> None:
    until = time_from_microseconds(bench.clock() + _KEPT_MICROSECONDS)
    operations.insert(REQUESTS, {"_id": trace_id(token), "until": until})
    if bench.settled is not None:
        operations.delete(REQUESTS, {"_id": trace_id(bench.settled)})


async def has_landed(bench: Workbench, token: str) -> bool:
    """Whether an attempt that left a trace is in the store."""
    query = Query({"_id": trace_id(token)}, fields={"_id": 1})
    with translated():
        return bool(await bench.database.find(REQUESTS, query))
