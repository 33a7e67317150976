"""Embeddings by any endpoint that speaks OpenAI's `/v1/embeddings`."""

import base64
from collections.abc import Sequence
from typing import Any, Final, cast

import numpy as np
import orjson
from numpy.typing import NDArray

from hivemem_contracts.errors import Unavailable
from hivemem_runtime.openai_http import OpenAIEndpoint
from hivemem_vectors.embedders.ports import Embeddings, check_texts, checked_rows, wrong_dimension

ANSWER_BYTES_PER_TEXT: Final = 256 * 1_024
"""The size of an embedding of 8,192 numbers, each written as long as JSON makes them."""


class OpenAIEmbedder:
    """Embeds by an endpoint. `url` is the part before `/embeddings`, such as `http://127.0.0.1:11434/v1`."""

    def __init__(self, url: str, model: str, dimension: int, **options: Any) -> None:
        """The options are passed on to `OpenAIEndpoint`."""
        self.model, self.dimension = model, dimension
        self._endpoint = OpenAIEndpoint(f"{url.rstrip('/')}/embeddings", model, **options)

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        check_texts(texts)
        if not texts:
            return np.empty((0, self.dimension), np.float32)

        def parse(answer: bytes) -> Embeddings:
            rows = _rows_of_answer(answer, len(texts), self.model, self.dimension)
            return checked_rows(rows, texts=len(texts), model=self.model, dimension=self.dimension)

        body = {"model": self.model, "encoding_format": "float", "input": list(texts)}
        return await self._endpoint.post(body, parse, most_bytes=len(texts) * ANSWER_BYTES_PER_TEXT, field="text")

    async def close(self) -> None:
        await self._endpoint.close()


def _rows_of_answer(answer: bytes, texts: int, model: str, dimension: int) -> NDArray[np.float64]:
    """Return the rows in the order of the texts. Raises ValueError, TypeError or KeyError for any other answer."""
    data = _items(answer)
    if len(data) != texts:
        raise Unavailable(f"{model}: {len(data)} embeddings for {texts} texts", retry_after_ms=0)
    rows = np.full((texts, dimension), np.nan)
    taken: set[int] = set()
    for at, item in enumerate(data):
        index = item.get("index", at)
        if not isinstance(index, int) or not 0 <= index < texts or index in taken:
            raise ValueError(f"an embedding with the index {index!r}")
        taken.add(index)
        row = _numbers(item["embedding"])
        if row.shape != (dimension,):
            raise wrong_dimension(model, expected=dimension, actual=row.size)
        rows[index] = row
    return rows


def _items(answer: bytes) -> list[dict[str, Any]]:
    data: object = _decoded(answer)["data"]
    if not isinstance(data, list):
        raise TypeError("data that is no list")
    items = cast("list[object]", data)
    if not all(isinstance(item, dict) for item in items):
        raise TypeError("data that is no list of objects")
    return cast("list[dict[str, Any]]", items)


def _decoded(answer: bytes) -> Any:
    try:
        return orjson.loads(answer)
    except orjson.JSONDecodeError:
        # Endpoints that write with Python's own `json` send NaN and Infinity, which JSON does not have.
        import json

        return json.loads(answer)


def _numbers(embedding: Any) -> NDArray[np.float64]:
    """Return a list of numbers, or 32-bit floats in base64, as an array; `null` becomes NaN."""
    if isinstance(embedding, str):
        packed = np.frombuffer(base64.b64decode(embedding, validate=True), dtype="<f4")
        return packed.astype(np.float64)
    if not isinstance(embedding, list):
        raise TypeError(f"an embedding that is a {type(embedding).__name__}")
    numbers = cast("list[float | None]", embedding)
    return np.array([np.nan if number is None else number for number in numbers], dtype=np.float64)
