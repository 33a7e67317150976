"""fastembed loads a cross-encoder from a folder, without a hub."""

import math
from pathlib import Path

import pytest

from hivemem_contracts.errors import Unavailable
from hivemem_vectors.rerankers.cross_encoder import DEFAULT_MODEL, TEXTS_PER_RUN, CrossEncoder

from .tiny_model import write_model


async def test_scores_are_the_sigmoid_of_the_logits_in_the_order_of_the_texts(tmp_path: Path) -> None:
    write_model(tmp_path)
    reranker = CrossEncoder(DEFAULT_MODEL, cache=tmp_path / "none", folder=tmp_path)
    await reranker.load()

    texts = ["a b c", *["a"] * TEXTS_PER_RUN, "a b"]
    scores = await reranker.scores("q", texts)
    await reranker.close()

    tokens = [len(["CLS", "q", "SEP", *text.split(), "SEP"]) for text in texts]
    assert scores == pytest.approx([1 / (1 + math.exp(count)) for count in tokens])


async def test_a_model_that_cannot_be_loaded_is_unavailable(tmp_path: Path) -> None:
    reranker = CrossEncoder(DEFAULT_MODEL, cache=tmp_path, folder=tmp_path)
    with pytest.raises(Unavailable, match=f"{DEFAULT_MODEL} cannot be loaded, which needs .* and {tmp_path}: "):
        await reranker.scores("q", ["a"])
    await reranker.close()
