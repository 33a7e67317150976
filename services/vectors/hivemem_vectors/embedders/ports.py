"""The port of embedders, and the checks that all of them share."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hivemem_contracts.errors import InvalidRequest, Unavailable

TEXTS_PER_CALL: Final = 2_048
"""The most texts that one `embed` takes."""

CHARACTERS_PER_TEXT: Final = 65_536
"""The most characters of one text; chunks and questions are far shorter."""

Embeddings: TypeAlias = NDArray[np.float32]
"""One vector per row: finite numbers, as many as the model's dimension."""


class Embedder(Protocol):
    """Turns texts into embeddings; the same text gives the same one, as far as the model does.

    `embed` may raise `Unavailable`: a timeout, an endpoint that is down, overloaded, or set up wrongly; the texts are
    not at fault, and the same call may succeed after `retry_after_ms`. And `InvalidRequest` for what cannot succeed:
    its `field` is `text` for what was sent, `dimension` where the model answers with another number of numbers than
    the embedder was made for, `embedding` where they are not finite; where one text alone is at fault, `index` says
    which. A call gives all embeddings or none. Nothing blocks the event loop.
    """

    @property
    def model(self) -> str:
        """What the embeddings are named after: those of another model cannot be compared with them."""
        ...

    @property
    def dimension(self) -> int: ...

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        """A row for each text, in order; up to `TEXTS_PER_CALL` texts, each with something to read."""
        ...

    async def close(self) -> None:
        """Let go of the model or the connections; a later `embed` is `Unavailable`. Twice is fine."""
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
