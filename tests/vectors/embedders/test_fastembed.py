"""fastembed loads the packaged model from a folder, without a hub."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest
import pytest_asyncio
from fastembed import TextEmbedding

from hivemem_contracts.errors import InvalidRequest, Unavailable
from hivemem_vectors.embedders.fastembed import FastembedEmbedder
from hivemem_vectors.embedders.offline.embedder import OfflineEmbedder, packaged_model
from hivemem_vectors.embedders.offline.word_pieces import TOKENS_PER_TEXT
from hivemem_vectors.embedders.presets import PRESETS

from ..reference_tokenizer import reference_tokenizer

pytestmark = pytest.mark.asyncio(loop_scope="module")

MODEL = "sentence-transformers/all-MiniLM-L6-v2"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("model")
    (made / "model.onnx").symlink_to(packaged_model())
    reference_tokenizer().save(str(made / "tokenizer.json"))
    settings = {"model_max_length": TOKENS_PER_TEXT, "pad_token": "[PAD]"}
    (made / "tokenizer_config.json").write_text(json.dumps(settings))
    return made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def embedder(folder: Path) -> AsyncIterator[FastembedEmbedder]:
    opened = FastembedEmbedder(MODEL, 384, cache=folder / "none", folder=folder)
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
    opened = FastembedEmbedder(MODEL, 768, cache=folder, folder=folder)
    with pytest.raises(InvalidRequest) as refused:
        await opened.embed(["a"])
    await opened.close()

    assert refused.value.context == {"field": "dimension", "expected": 768, "actual": 384}


async def test_a_model_that_cannot_be_loaded_is_unavailable(tmp_path: Path) -> None:
    opened = FastembedEmbedder(MODEL, 384, cache=tmp_path, folder=tmp_path)
    with pytest.raises(Unavailable, match=f"cannot be loaded, which needs .* and {tmp_path}: "):
        await opened.embed(["a"])
    await opened.close()


async def test_a_model_that_fastembed_does_not_list_is_loaded_by_its_file(folder: Path) -> None:
    opened = FastembedEmbedder("some/model", 384, cache=folder, folder=folder, file="model.onnx")
    again = FastembedEmbedder("some/model", 384, cache=folder, folder=folder, file="model.onnx")
    rows = np.concatenate([await opened.embed(["a"]), await again.embed(["a"])])
    await opened.close()
    await again.close()

    assert np.linalg.norm(rows, axis=1) == pytest.approx([1, 1])


async def test_presets_are_as_fastembed_lists_them() -> None:
    dimensions = {model["model"]: model["dim"] for model in TextEmbedding.list_supported_models()}
    listed = {preset.model: preset.dimension for preset in PRESETS.values() if preset.file is None}

    assert listed == {model: dimensions.get(model) for model in listed}
