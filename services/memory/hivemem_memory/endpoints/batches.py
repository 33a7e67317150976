"""Requests of many parts, committed as one decision, with an audit link for each refused part."""

from collections.abc import Sequence

from pydantic import BaseModel

from hivemem_memory.decisions.batches import Batch, BatchResult
from hivemem_memory.endpoints.audit_trail import AuditTrail
from hivemem_memory.entities.answers import ANSWER
from hivemem_runtime.ledger.port import Ledger
from hivemem_runtime.service import Call


async def commit_batch(
    ledger: Ledger, trail: AuditTrail, call: Call, bodies: Sequence[BaseModel], batch: Batch
) -> BatchResult:
    """Commit the parts and return the result of each. `bodies` are the parts as requested.

    A durable command has no reply that could carry a refused part, so the first refusal is raised. A retry does not
    repeat the successful parts.
    """
    parts: BatchResult = (
        await ledger.commit(call.step(ANSWER, batch.request_id.name, batch.decide, batch.reads))
    ).answer
    if call.route is not None and parts.refusal is not None:
        raise parts.refusal
    await trail.refused_parts(call, bodies, parts.results)
    return parts
