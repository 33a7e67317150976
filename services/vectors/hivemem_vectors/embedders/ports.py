"""The port of embedders, the checks that all of them share, and the guard around any of them."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hivemem_contracts.errors import InvalidRequest, Unavailable
from hivemem_runtime.circuit_breaker import CircuitBreaker

TEXTS_PER_CALL: Final = 2_048
"""The most texts that one `embed` takes."""

CHARACTERS_PER_TEXT: Final = 65_536
"""The most characters of one text; chunks and questions are far shorter."""

Embeddings: TypeAlias = NDArray[np.float32]
"""One vector per row: finite numbers, as many as the model's dimension."""


class Embedder(Protocol):
    """Turns texts into embeddings: equal texts into equal embeddings, if the model does so.

    A call returns all embeddings or none, and never blocks the event loop. It raises `Unavailable` if the model or its
    endpoint is down, overloaded or set up wrongly; the same call may succeed after `retry_after_ms`. It raises
    `InvalidRequest` for a call that cannot succeed. The error's `field` is `text` for a refused text, `dimension` for a
    model with another dimension than the embedder was made for, and `embedding` for numbers that are not finite;
    `index` is the position of the text at fault, if there is one.
    """

    @property
    def model(self) -> str:
        """The name of the model. Embeddings of different models cannot be compared."""
        ...

    @property
    def dimension(self) -> int: ...

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        """Return one row for each text, in order. A call takes at most `TEXTS_PER_CALL` texts, and no blank ones."""
        ...

    async def close(self) -> None:
        """Release the model or the connections; a later `embed` is `Unavailable`. A second call does nothing."""
        ...


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
    """Return the rows in single precision, after a check of their form."""
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
    """Wrap a call with some of the texts, and translate the `index` of a refusal to the position among all texts."""
    try:
        yield
    except InvalidRequest as error:
        index = error.context.get("index")
        if isinstance(index, int) and 0 <= index < len(places):
            error.context["index"] = places[index]
        raise


class EmbedderWrapper:
    """An embedder around another one, for the same model."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self.model, self.dimension = embedder.model, embedder.dimension

    async def close(self) -> None:
        await self._embedder.close()


class GuardedEmbedder(EmbedderWrapper):
    """Leaves an embedder that keeps failing alone for a while."""

    def __init__(self, embedder: Embedder, breaker: CircuitBreaker) -> None:
        super().__init__(embedder)
        self._breaker = breaker

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        with self._breaker.guard():
            return await self._embedder.embed(texts)
