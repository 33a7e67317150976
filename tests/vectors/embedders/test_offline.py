"""The packaged model works without a network."""

import asyncio
from collections.abc import AsyncIterator

import numpy as np
import pytest
import pytest_asyncio

from hivemem_contracts.errors import InvalidRequest, Unavailable
from hivemem_vectors.embedders.offline.embedder import DIMENSION, TEXTS_PER_RUN, OfflineEmbedder

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def embedder() -> AsyncIterator[OfflineEmbedder]:
    opened = OfflineEmbedder(threads=2)
    yield opened
    await opened.close()


async def test_embeddings_have_length_one_and_mean_something(embedder: OfflineEmbedder) -> None:
    rows = await embedder.embed(
        ["How do I reset my password?", "Steps to recover account access", "Bananas are yellow"]
    )

    assert rows.shape == (3, DIMENSION) == (3, embedder.dimension)
    assert rows.dtype == np.float32
    assert np.linalg.norm(rows, axis=1).tolist() == pytest.approx([1, 1, 1], abs=1e-5)
    assert rows[0] @ rows[1] > 0.5 > 0.2 > rows[0] @ rows[2]


async def test_more_texts_than_one_run_takes_come_in_order(embedder: OfflineEmbedder) -> None:
    texts = [f"note number {number}" for number in range(2 * TEXTS_PER_RUN + 3)]

    rows = await embedder.embed(texts)
    alone = np.concatenate([await embedder.embed([text]) for text in texts[::7]])

    # The weights have 8 bits and the batch sets their scale, so results differ slightly between batches.
    assert np.einsum("ij,ij->i", rows[::7], alone).min() > 0.98


async def test_no_texts_give_no_rows(embedder: OfflineEmbedder) -> None:
    assert (await embedder.embed([])).shape == (0, DIMENSION)


async def test_a_blank_text_is_refused(embedder: OfflineEmbedder) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await embedder.embed(["a", "\n"])

    assert refused.value.context == {"field": "text", "index": 1}


async def test_the_event_loop_runs_on_while_the_model_runs(embedder: OfflineEmbedder) -> None:
    ticks = 0
    embedding = asyncio.ensure_future(embedder.embed(["some words to think about"] * 64))
    while not embedding.done():
        await asyncio.sleep(0)
        ticks += 1
    await embedding

    assert ticks > 64 / TEXTS_PER_RUN


async def test_a_question_does_not_wait_for_many_texts(embedder: OfflineEmbedder) -> None:
    await embedder.load()
    many = asyncio.gather(*[embedder.embed(["some words to think about"] * 64) for _ in range(8)])
    await asyncio.sleep(0)
    await embedder.embed(["where was that?"])

    assert not many.done()
    await many


async def test_loading_at_once_from_many_tasks_loads_once() -> None:
    opened = OfflineEmbedder(threads=2)
    alone = asyncio.ensure_future(opened.embed(["same"]))
    rows = await asyncio.gather(*[opened.embed(["same", "again"]) for _ in range(4)])
    await alone
    await opened.load()
    await opened.close()

    assert all((row == rows[0]).all() for row in rows)


async def test_closed_it_is_unavailable_and_closing_twice_is_fine() -> None:
    opened = OfflineEmbedder()
    await opened.close()
    await opened.close()

    with pytest.raises(Unavailable, match="closed"):
        await opened.embed(["a"])
