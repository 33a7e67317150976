"""What an endpoint answers, as rows of numbers."""

import base64
from typing import Any, Final, cast

import numpy as np
import orjson
from numpy.typing import NDArray

from hivemem_contracts.errors import Unavailable
from hivemem_vectors.adapters.embedders.checking import wrong_dimension

ANSWER_BYTES_PER_TEXT: Final = 256 * 1_024
"""An embedding of 8,192 numbers, each written as long as JSON makes them."""


def rows_of_answer(answer: bytes, texts: int, model: str, dimension: int) -> NDArray[np.float64]:
    """The rows in the order of the texts. Raises ValueError, TypeError or KeyError for what is no such answer."""
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
        # Python's own writer, and so many an endpoint, says NaN and Infinity, which JSON has no words for.
        import json

        return json.loads(answer)


def _numbers(embedding: Any) -> NDArray[np.float64]:
    """A list of numbers, or the bytes of such as 32-bit floats in base64; `null` stands for what is none."""
    if isinstance(embedding, str):
        packed = np.frombuffer(base64.b64decode(embedding, validate=True), dtype="<f4")
        return packed.astype(np.float64)
    if not isinstance(embedding, list):
        raise TypeError(f"an embedding that is a {type(embedding).__name__}")
    numbers = cast("list[float | None]", embedding)
    return np.array([np.nan if number is None else number for number in numbers], dtype=np.float64)
