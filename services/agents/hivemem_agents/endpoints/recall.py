"""The operation that finds records by meaning, and adds the newest results."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import orjson

from hivemem_agents.endpoints.agents import find_definition
from hivemem_agents.endpoints.record_memories import namespace_of
from hivemem_agents.entities.cycles import CYCLE
from hivemem_contracts.agents import operations, requests
from hivemem_contracts.limits import REPLY_BYTES
from hivemem_contracts.vectors.models import RecallFilter
from hivemem_contracts.vectors.operations import RECALL
from hivemem_contracts.vectors.requests import Recall
from hivemem_runtime.bus.requests.outgoing import TIMEOUT_SECONDS, Asking
from hivemem_runtime.ledger.port import Ledger
from hivemem_runtime.paging import Lines
from hivemem_runtime.service import Call, Service
from hivemem_runtime.tokens import estimated_tokens

ALL_KINDS: Final = 4
RESULTS_BYTES: Final = REPLY_BYTES // 3


def bind(service: Service, asking: Asking) -> None:
    service.handler(operations.RECALL, partial(recall, service.ledger, asking))


async def recall(ledger: Ledger, asking: Asking, call: Call, body: requests.RecallRecords) -> bytes:
    """Ask the index for each kind, and merge the answers by score: the scores of one question are comparable."""
    await find_definition(ledger, call.sender.tenant, body.agent_id)
    kinds = sorted(set(body.kinds or ()))
    asked: Sequence[str | None] = [None] if len(kinds) in (0, ALL_KINDS) else kinds
    answers = await asyncio.gather(*(_ask(asking, call, body, kind) for kind in asked))
    results = await _newest_results(ledger, call.sender.tenant, body.agent_id, body.results)
    found = sorted((item for answer in answers for item in answer["items"]), key=_score, reverse=True)
    cuts = [answer["cut"] for answer in answers if answer["cut"]]
    lines = Lines(body.limit, room=REPLY_BYTES - sum(map(len, results)))
    left = body.max_tokens
    for item in found:
        tokens = 0 if left is None else estimated_tokens(orjson.dumps(item["value"]).decode())
        if left is not None and len(answers) > 1:
            if tokens > left:
                cuts.append("tokens")
                continue
            left -= tokens
        if not lines.add(item):
            if len(lines) < body.limit:
                cuts.append("bytes")
            break
    degraded = next((answer["degraded"] for answer in answers if answer["degraded"]), None)
    fragments = [orjson.Fragment(result) for result in results]
    return orjson.dumps(
        {"items": lines.items, "results": fragments, "degraded": degraded, "cut": cuts[0] if cuts else None}
    )


async def _ask(asking: Asking, call: Call, body: requests.RecallRecords, kind: str | None) -> dict[str, Any]:
    fields: dict[str, Any] = {
        name: getattr(body, name) for name in ("max_tokens", "wait_ms") if getattr(body, name) is not None
    }
    if kind is not None:
        fields["filter"] = RecallFilter(metadata={"kind": kind})
    question = Recall(
        query=body.query, namespace_prefix=namespace_of(body.agent_id), kinds=["memory"], limit=body.limit, **fields
    )
    seconds = TIMEOUT_SECONDS + (body.wait_ms or 0) / 1_000
    return await asking.ask(call.sender.tenant, call.sender.agent, RECALL, question, timeout_seconds=seconds)


def _score(item: dict[str, Any]) -> float:
    return float(item["score"])


async def _newest_results(ledger: Ledger, tenant: str, agent_id: str, count: int) -> list[bytes]:
    """Return the results of the newest cycles as JSON, as many as fit into their share of an answer."""
    if count == 0:
        return []
    page = await ledger.find(CYCLE, tenant, "agent_result", equals={"agent_id": agent_id}, reverse=True, limit=count)
    results: list[bytes] = []
    room = RESULTS_BYTES
    for head in page.items:
        if head.value is None or head.value.result is None:
            continue
        result = head.value.result
        line = orjson.dumps(
            {"number": head.value.number, **{name: result[name] for name in ("outcome", "output", "error", "at")}}
        )
        room -= len(line)
        if results and room < 0:
            break
        results.append(line)
    return results
