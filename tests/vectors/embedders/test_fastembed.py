"""fastembed loads the packaged model from a folder, without a hub."""

import json
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import fastembed
import numpy as np
import pytest
import pytest_asyncio

from hivemem_contracts.errors import InvalidRequest, Unavailable
from hivemem_vectors.embedders.fastembed import FastembedEmbedder
from hivemem_vectors.embedders.offline.embedder import TOKENS_PER_TEXT, OfflineEmbedder, WordPieces, packaged_model

pytestmark = pytest.mark.asyncio(loop_scope="module")

MODEL = "sentence-transformers/all-MiniLM-L6-v2"


@contextmanager
def models_in(folder: Path) -> Generator[None]:
    """Load models from a folder instead of the hub."""
    with pytest.MonkeyPatch.context() as patched:
        local = partial(fastembed.TextEmbedding, specific_model_path=str(folder), local_files_only=True)
        patched.setattr(fastembed, "TextEmbedding", local)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("model")
    (made / "model.onnx").symlink_to(packaged_model())
    WordPieces().save(made / "tokenizer.json")
    settings = {"model_max_length": TOKENS_PER_TEXT, "pad_token": "[PAD]"}
    (made / "tokenizer_config.json").write_text(json.dumps(settings))
    return made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def embedder(folder: Path) -> AsyncIterator[FastembedEmbedder]:
    opened = FastembedEmbedder(MODEL, 384, cache=folder)
    with models_in(folder):
        await opened.load()
    yield opened
    await opened.close()


async def test_it_gives_what_the_offline_embedder_gives_of_the_same_model(embedder: FastembedEmbedder) -> None:
    texts = ["How do I reset my password?", "Steps to recover account access", "Bananas are yellow"]
    offline = OfflineEmbedder()
    same = await offline.embed(texts)
    await offline.close()

    rows = await embedder.embed(texts)

    assert rows.dtype == np.float32
    assert (embedder.model, embedder.dimension) == (MODEL, 384)
    assert np.einsum("ij,ij->i", rows, same).min() > 0.99


async def test_no_texts_give_no_rows_and_a_blank_one_is_refused(embedder: FastembedEmbedder) -> None:
    assert (await embedder.embed([])).shape == (0, 384)
    with pytest.raises(InvalidRequest):
        await embedder.embed([" "])


async def test_a_wrong_dimension_is_refused_by_name(folder: Path) -> None:
    opened = FastembedEmbedder(MODEL, 768, cache=folder)
    with models_in(folder), pytest.raises(InvalidRequest) as refused:
        await opened.embed(["a"])
    await opened.close()

    assert refused.value.context == {"field": "dimension", "expected": 768, "actual": 384}


async def test_a_model_that_cannot_be_loaded_is_unavailable(tmp_path: Path) -> None:
    opened = FastembedEmbedder(MODEL, 384, cache=tmp_path)
    with models_in(tmp_path), pytest.raises(Unavailable, match="cannot be loaded"):
        await opened.embed(["a"])
    await opened.close()
