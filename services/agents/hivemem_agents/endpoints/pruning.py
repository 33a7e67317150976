"""The operation that deletes records by age and relevance."""

import asyncio
from functools import partial
from typing import Final

from hivemem_agents.decisions.pruning import PrunedEntry, choose
from hivemem_agents.endpoints.agents import find_definition
from hivemem_agents.endpoints.record_entries import entries
from hivemem_agents.endpoints.record_memories import RecordMemories
from hivemem_agents.entities.records import PRUNING, RECORD, Pruning, RecordEntry
from hivemem_contracts.agents import operations, requests
from hivemem_contracts.agents.replies import Pruned, PrunedRecord
from hivemem_contracts.errors import InvalidRequest
from hivemem_contracts.identifiers import time_from_microseconds
from hivemem_runtime.clock import now_microseconds
from hivemem_runtime.ledger.places import place_of
from hivemem_runtime.ledger.port import Append, Ledger
from hivemem_runtime.service import Call, Service, earlier_outcome

SHOWN: Final = 100
PRUNED_AT_ONCE: Final = 2_000


def bind(service: Service, memories: RecordMemories) -> None:
    service.handler(operations.PRUNE, partial(prune, service.ledger, memories))


async def prune(ledger: Ledger, memories: RecordMemories, call: Call, body: requests.PruneRecords) -> Pruned:
    tenant = call.sender.tenant
    if body.max_entries is None and body.older_than_days is None and body.min_relevance is None:
        raise InvalidRequest(
            "max_entries: one of max_entries, older_than_days and min_relevance is needed", field="max_entries"
        )
    await find_definition(ledger, tenant, body.agent_id)
    earlier = await earlier_outcome(ledger, call, PRUNING, body.agent_id)
    if earlier is not None:
        return Pruned.model_validate({**earlier.record.answer, "duplicate": True})
    kinds = frozenset(body.kinds or ())
    found: list[RecordEntry] = []
    async for page in entries(ledger, tenant, body.agent_id):
        found += [entry for entry in page if not kinds or entry.kind in kinds]
    chosen = choose(found, body, now_microseconds())
    left = 0 if body.dry_run else len(chosen) - len(chosen[:PRUNED_AT_ONCE])
    if not body.dry_run:
        chosen = chosen[:PRUNED_AT_ONCE]
        keys = [one.entry.key for one in chosen]
        await memories.delete(call.sender, body.agent_id, keys, call.message_id)
        places = [place_of(body.agent_id, key) for key in keys]
        erase = partial(ledger.erase, RECORD, tenant, actor=call.sender.agent, cause=call.message_id)
        await asyncio.gather(*map(erase, places))
    items = [_shown(one) for one in chosen[:SHOWN]]
    answer = Pruned(dry_run=body.dry_run, checked=len(found), pruned=len(chosen), left=left, items=items)
    pruning = Pruning(answer.model_dump(mode="json", exclude={"duplicate"}))
    await ledger.commit(
        call.write(PRUNING, body.agent_id, lambda heads, now: [Append(PRUNING, body.agent_id, pruning)])
    )
    return answer


def _shown(one: PrunedEntry) -> PrunedRecord:
    entry = one.entry
    fields = {"key": entry.key, "kind": entry.kind, "importance": entry.importance}
    return PrunedRecord.model_validate(
        {**fields, "at": time_from_microseconds(entry.at), "relevance": one.relevance, "why": one.why}
    )
