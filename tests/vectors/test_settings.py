"""The vectors worker as a program names the setting with which it cannot start."""

import sys
from pathlib import Path
from types import NoneType
from typing import Any

import pytest
from pydantic import SecretStr

from hivemem_runtime.program import main
from hivemem_runtime.settings import SettingsError, load
from hivemem_vectors.rerankers.cross_encoder import CrossEncoder
from hivemem_vectors.rerankers.endpoint import EndpointReranker
from hivemem_vectors.worker import DRIVERS, WORKER, VectorsSettings, build, open_model, open_reranker

ENDPOINT = {"embedder": "openai", "embedder_url": "http://127.0.0.1:1/v1", "embedder_model": "m"}
HTTP_RERANKER = {"reranker": "http", "reranker_url": "http://127.0.0.1:1/v1", "reranker_model": "m"}


def test_a_wrong_setting_ends_it_with_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HIVEMEM_VECTORS", "pinecone")
    assert main(WORKER, []) == 2
    said = capsys.readouterr().err
    assert said.startswith("hivemem-vectors: HIVEMEM_VECTORS='pinecone'")
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"embedder": "openai"}, r"^HIVEMEM_EMBEDDER_URL: HIVEMEM_EMBEDDER=openai has to be told it$"),
        ({"embedder": "openai", "embedder_url": "http://x/v1"}, r"^HIVEMEM_EMBEDDER_MODEL: "),
        (ENDPOINT, r"^HIVEMEM_EMBEDDER_DIMENSION: "),
        ({"embedder": "fastembed", "embedder_dimension": 384}, r"^HIVEMEM_EMBEDDER_MODEL: "),
        ({"embedder": "fastembed", "embedder_model": "m"}, r"^HIVEMEM_EMBEDDER_DIMENSION: "),
        (
            {"embedder": "fastembed", "embedder_model": "m", "embedder_dimension": 8, "embedder_url": "http://x"},
            r"^HIVEMEM_EMBEDDER_URL=http://x: this embedder asks no endpoint",
        ),
        (
            {"embedder": "fastembed", "embedder_preset": "artic_s"},
            r"^HIVEMEM_EMBEDDER_PRESET=artic_s: there is no such preset; the nearest name is arctic-s$",
        ),
        (
            {"embedder": "fastembed", "embedder_preset": "e5-small", "embedder_model": "m"},
            r"^HIVEMEM_EMBEDDER_MODEL=m: HIVEMEM_EMBEDDER_PRESET=e5-small has its own$",
        ),
        (
            {"embedder": "fastembed", "embedder_preset": "e5-small", "embedder_folder": "/nowhere"},
            r"^HIVEMEM_EMBEDDER_FOLDER=/nowhere: there is no such folder$",
        ),
        (ENDPOINT | {"embedder_preset": "e5-small"}, r"^HIVEMEM_EMBEDDER_PRESET=e5-small: only .*fastembed has any$"),
        ({"embedder_query_prefix": "query: "}, r"^HIVEMEM_EMBEDDER_QUERY_PREFIX=query: : this embedder has its own"),
        ({"embedder_model": "m"}, r"^HIVEMEM_EMBEDDER_MODEL=m: this embedder has its own model: .*openai"),
        ({"embedder_dimension": 768}, r"^HIVEMEM_EMBEDDER_DIMENSION=768: this embedder has its own"),
    ],
)
def test_settings_of_an_embedder_that_do_not_go_together_are_named(given: dict[str, Any], told: str) -> None:
    with pytest.raises(SettingsError, match=told):
        open_model(VectorsSettings(**given))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"reranker_model": "m"}, r"^HIVEMEM_RERANKER_MODEL=m: only HIVEMEM_RERANKER=fastembed or http has any$"),
        ({"reranker": "http"}, r"^HIVEMEM_RERANKER_URL: HIVEMEM_RERANKER=http has to be told it$"),
        ({"reranker": "http", "reranker_url": "http://x"}, r"^HIVEMEM_RERANKER_MODEL: "),
        ({"reranker": "fastembed", "reranker_url": "http://x"}, r"^HIVEMEM_RERANKER_URL=http://x: .* asks no endpoint"),
        ({"reranker": "fastembed", "reranker_folder": "/nowhere"}, r"^HIVEMEM_RERANKER_FOLDER=/nowhere: there is no"),
        (HTTP_RERANKER | {"reranker_folder": "/x"}, r"^HIVEMEM_RERANKER_FOLDER=/x: only HIVEMEM_RERANKER=fastembed"),
    ],
)
def test_settings_of_a_reranker_that_do_not_go_together_are_named(given: dict[str, Any], told: str) -> None:
    with pytest.raises(SettingsError, match=told):
        open_reranker(VectorsSettings(**given))


@pytest.mark.parametrize(
    ("given", "kind"), [({}, NoneType), (HTTP_RERANKER, EndpointReranker), ({"reranker": "fastembed"}, CrossEncoder)]
)
async def test_a_reranker_is_of_the_kind_that_it_is_set_to(given: dict[str, Any], kind: type, tmp_path: Path) -> None:
    opened = open_reranker(VectorsSettings(data=tmp_path, **given)).reranker
    assert type(opened) is kind
    if opened is not None:
        await opened.close()


def test_a_key_is_never_shown() -> None:
    settings = VectorsSettings(embedder_key=SecretStr("sk-secret"))
    with pytest.raises(SettingsError, match=r"^HIVEMEM_EMBEDDER_KEY=\*+: ") as refused:
        open_model(settings)
    assert "sk-secret" not in f"{refused.value}{settings}"


def test_only_a_server_has_quantization() -> None:
    with pytest.raises(SettingsError, match=r"^HIVEMEM_QUANTIZATION=scalar: .*HIVEMEM_VECTORS=qdrant"):
        build(VectorsSettings(quantization="scalar"))


@pytest.mark.parametrize(
    ("name", "said"),
    [("vectors-384", "users' own"), ("Memories", "should match pattern"), ("", "should match pattern")],
)
def test_a_collection_that_cannot_be_one_is_refused(monkeypatch: pytest.MonkeyPatch, name: str, said: str) -> None:
    monkeypatch.setenv("HIVEMEM_COLLECTION", name)
    with pytest.raises(SettingsError, match=rf"^HIVEMEM_COLLECTION='{name}': .*{said}"):
        load(VectorsSettings)


@pytest.mark.parametrize("choice", DRIVERS)
def test_a_missing_driver_is_named_with_what_has_it(monkeypatch: pytest.MonkeyPatch, choice: str) -> None:
    monkeypatch.setitem(sys.modules, DRIVERS[choice][-1], None)
    told = rf"{choice} needs what is not installed: hivemem-vectors\[{choice}\] \({DRIVERS[choice][-1]}\)"
    variable = {"edge": "vectors", "qdrant": "vectors", "http": "reranker"}.get(choice, "embedder")
    with pytest.raises(SettingsError, match=told):
        build(VectorsSettings.model_validate({variable: choice}))


@pytest.mark.parametrize(
    ("given", "model", "dimension"),
    [
        ({}, "all-MiniLM-L6-v2-onnx-int8", 384),
        ({**ENDPOINT, "embedder_dimension": 768}, "m", 768),
        ({"embedder": "fastembed", "embedder_model": "f", "embedder_dimension": 8}, "f", 8),
        ({"embedder": "fastembed", "embedder_preset": "bge-base"}, "BAAI/bge-base-en-v1.5", 768),
    ],
)
async def test_an_embedder_is_of_the_model_that_it_is_set_to(
    given: dict[str, Any], model: str, dimension: int, tmp_path: Path
) -> None:
    opened = open_model(VectorsSettings(data=tmp_path, **given))
    assert (opened.embedder.model, opened.embedder.dimension) == (model, dimension)
    assert opened.count_tokens("two words") >= 2
    await opened.embedder.close()


def test_nothing_is_there_before_it_starts(tmp_path: Path) -> None:
    worker = build(VectorsSettings(data=tmp_path))
    assert worker.name == "vectors"
    assert list(tmp_path.iterdir()) == []
