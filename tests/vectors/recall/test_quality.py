"""The quality of recall is tested: the retrieval set through a whole recall, from the text of a question to an answer.

`test_retrieval.py` describes the set, and tests the ranking alone.
"""

import json
import math
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio
from nats.aio.client import Client

from hivemem_runtime.bus.requests.outgoing import Asking
from hivemem_runtime.circuit_breaker import CircuitBreaker
from hivemem_runtime.ledger.sqlite import SqliteLedger
from hivemem_runtime.worker import Worker
from hivemem_vectors.embedders.cache import CachedEmbedder, RecentEmbeddings
from hivemem_vectors.embedders.offline.embedder import OfflineEmbedder
from hivemem_vectors.embedders.offline.word_pieces import WordPieces
from hivemem_vectors.pipeline.decisions.changes import version_of_memory
from hivemem_vectors.pipeline.decisions.drafts import Chunker
from hivemem_vectors.pipeline.endpoints.indexing import Indexer
from hivemem_vectors.pipeline.endpoints.peers import MemoryService, SessionService
from hivemem_vectors.recall.endpoints.waiting import IndexWaiters
from hivemem_vectors.stores.edge.store import EdgeVectors

from ..guarding import guarded
from .shelf import NAMESPACE, Desk, MemoryAgent, Shelf

pytestmark = pytest.mark.asyncio(loop_scope="session")
SET: Final = Path(__file__).parent.parent / "retrieval"
COLLECTION: Final = "quality"
RECALL_FLOOR: Final = 0.94
NDCG_FLOOR: Final = 0.84


@dataclass(frozen=True)
class Quality:
    recall: float
    """The share of answers among the first five hits."""
    ndcg: float
    """The normalized discounted cumulative gain of the first ten hits."""


def read(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (SET / name).read_text(encoding="utf-8").splitlines()]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def library(
    client: Client,
    memory_worker: Worker,
    memories: MemoryService,
    ledger: SqliteLedger,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Shelf]:
    """A shelf with all memories of the set, in the memory service and in the index."""
    bot = MemoryAgent(client, memory_worker, "quality")
    texts = {memory["id"]: memory["text"] for memory in read("memories.jsonl")}
    puts = [{"namespace": NAMESPACE, "key": id, "value": text} for id, text in texts.items()]
    await bot.ask("put_batch", {"puts": puts})
    store = EdgeVectors(tmp_path_factory.mktemp("quality"))
    embedder = CachedEmbedder(OfflineEmbedder(), RecentEmbeddings())
    indexer = Indexer(
        ledger,
        guarded(store, ledger, model=embedder.model, dimension=embedder.dimension),
        embedder,
        CircuitBreaker("the embedder"),
        Chunker(WordPieces().count),
        memories,
        collection=COLLECTION,
    )
    await indexer.prepare()
    written = await memories.get_many(bot.tenant, bot.name, [(NAMESPACE, id) for id in texts])
    await indexer.take_up([version_of_memory(bot.tenant, memory) for memory in written.values()])
    desk = Desk(ledger, store, memories, COLLECTION, IndexWaiters(ledger, memories, SessionService(Asking())), embedder)
    yield Shelf(desk, bot, desk.service())
    await embedder.close()
    await store.close()


async def quality(library: Shelf, **asked: Any) -> Quality:
    recalls: list[float] = []
    gains: list[float] = []
    for question in read("questions.jsonl"):
        top = await library.recall(question["question"], **asked)
        answers = set(question["answers"])
        recalls.append(len(answers & set(top[:5])) / len(answers))
        gained = sum([1 / math.log2(at + 2) for at, id in enumerate(top) if id in answers])
        gains.append(gained / sum([1 / math.log2(at + 2) for at in range(min(len(answers), 10))]))
    return Quality(sum(recalls) / len(recalls), sum(gains) / len(gains))


async def test_a_recall_finds_what_was_asked_for_and_more_than_either_side_alone(library: Shelf) -> None:
    both = await quality(library)

    assert both.recall >= RECALL_FLOOR
    assert both.ndcg >= NDCG_FLOOR
    for dense in (0.0, 1.0):
        alone = await quality(library, weights={"dense": dense})
        assert both.recall >= alone.recall
        assert both.ndcg > alone.ndcg
