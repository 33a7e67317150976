"""What an embedder must never take, and what must never come out of it."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from hivemem_contracts.errors import InvalidRequest, Unavailable
from hivemem_vectors.ports import CHARACTERS_PER_TEXT, TEXTS_PER_CALL, Embeddings


def check_texts(texts: Sequence[str]) -> None:
    if len(texts) > TEXTS_PER_CALL:
        raise InvalidRequest(f"text: {len(texts)} texts, and one call takes up to {TEXTS_PER_CALL}", field="text")
    for at, text in enumerate(texts):
        if not text.strip():
            raise InvalidRequest("text: one that has nothing to read", field="text", index=at)
        if len(text) > CHARACTERS_PER_TEXT:
            raise InvalidRequest(
                f"text: one of {len(text)} characters, and {CHARACTERS_PER_TEXT} are the most",
                field="text",
                index=at,
            )


def checked_rows(rows: NDArray[np.floating], *, texts: int, model: str, dimension: int) -> Embeddings:
    """The rows as they are kept, of a model that answered as it must."""
    if rows.ndim != 2 or len(rows) != texts:
        raise Unavailable(f"{model}: {len(rows)} embeddings for {texts} texts", retry_after_ms=1_000)
    if texts and rows.shape[1] != dimension:
        raise wrong_dimension(model, expected=dimension, actual=rows.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):
        single = rows.astype(np.float32, copy=False)
        # What a cosine divides by: it is not finite where a number is not, or where it is too large to be compared.
        finite = np.isfinite(np.einsum("ij,ij->i", single, single))
    if not finite.all():
        at = int(np.argmin(finite))
        raise InvalidRequest(
            f"embedding: {model} answered with numbers that are not finite, or too large to be compared",
            field="embedding",
            index=at,
        )
    return single


def wrong_dimension(model: str, *, expected: int, actual: int) -> InvalidRequest:
    return InvalidRequest(
        f"dimension: {model} answered with {actual} numbers, and {expected} were expected",
        field="dimension",
        expected=expected,
        actual=actual,
    )


@contextmanager
def numbered(places: Sequence[int]) -> Generator[None, None, None]:
    """Around a call with some of the texts, which stand at these places among all of them: the `index` of a refused
    one is put in terms of those."""
    try:
        yield
    except InvalidRequest as error:
        index = error.context.get("index")
        if isinstance(index, int) and 0 <= index < len(places):
            error.context["index"] = places[index]
        raise
