"""The last step of a recall that asks for it: the reranker orders the best items."""

from hivemem_contracts.errors import HiveError
from hivemem_vectors.recall.decisions.budget import Budget
from hivemem_vectors.recall.decisions.ranking import Weights
from hivemem_vectors.recall.decisions.reranking import Candidates, reranked
from hivemem_vectors.recall.endpoints.search import Shortfall
from hivemem_vectors.rerankers.ports import Reranker


async def rerank(
    reranker: Reranker, query: str, candidates: Candidates, weights: Weights, budget: Budget
) -> list[Shortfall]:
    """Put the candidates into the budget in the reranker's order; in their own, with the reason, if it fails."""
    items, shortfalls = candidates.items, list[Shortfall]()
    if texts := [item["text"] for item in candidates.readable]:
        try:
            items = reranked(candidates, await reranker.scores(query, texts), weights)
        except HiveError as error:
            shortfalls.append(Shortfall("reranker", f"items are not reranked: {error.detail}"))
    for item in items:
        if budget.missing:
            budget.add(item)
    return shortfalls
