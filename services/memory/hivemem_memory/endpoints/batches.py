"""Requests of many parts: committed as one decision, with a link of the audit for each part that is refused."""

from collections.abc import Sequence

from pydantic import BaseModel

from hivemem_memory.decisions.batches import Batch, Parts
from hivemem_memory.endpoints.auditing import Trail
from hivemem_memory.entities.answers import ANSWER
from hivemem_runtime.ledger.port import Ledger
from hivemem_runtime.service import Call


async def commit_batch(ledger: Ledger, trail: Trail, call: Call, bodies: Sequence[BaseModel], batch: Batch) -> Parts:
    """Return what became of each part. `bodies` are the parts as they came.

    A durable command has nobody to tell of a refused part, so the first refusal is raised: the parts that are done stay
    done, and are not done again.
    """
    parts: Parts = (await ledger.commit(call.step(ANSWER, batch.request_id.name, batch.decide, batch.reads))).answer
    if call.route is not None and parts.refusal is not None:
        raise parts.refusal
    await trail.refused_parts(call, bodies, parts.results)
    return parts
