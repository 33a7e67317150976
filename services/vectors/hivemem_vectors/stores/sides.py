"""The hits of both sides of a search as one list, each with both scores."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from hivemem_vectors.stores.arguments import ID, TENANT
from hivemem_vectors.stores.ports import (
    FEWEST_SCORED,
    POINTS_PER_CALL,
    SCORED_BY_WORDS,
    Dense,
    Hit,
    Sparse,
    StoredPoint,
    Vector,
)

Side = Literal["dense", "sparse"]
DENSE: Final = "dense"
SPARSE: Final = "sparse"
"""The names of a point's vectors."""


class Found(NamedTuple):
    """A point that one side of a search has found."""

    number: str
    score: float
    payload: Mapping[str, Any]


class Ask(NamedTuple):
    """A query of one side, for its best points; of those with certain numbers alone, all of them, where there are any
    in `among`. A `bare` one is answered without values."""

    side: Side
    limit: int
    among: Sequence[str] = ()
    bare: bool = False


Asking = Callable[[Sequence[Ask], Vector | None], Awaitable[list[list[Found]]]]
"""Answers several queries at once, given the vector of the dense ones."""


async def search_sides(ask: Asking, dense: Dense, sparse: Sparse | None, limit: int) -> list[Hit]:
    """What `VectorStore.search` answers: the words are asked for first, as the vector may still be under way."""
    if sparse is None:
        vector = await _arrived(dense)
        return [] if vector is None else merged((await ask([Ask(DENSE, limit)], vector))[0], None)
    by_words: list[Found] | None = None
    if dense is not None:
        scored = min(max(limit * SCORED_BY_WORDS, FEWEST_SCORED), POINTS_PER_CALL)
        [by_words] = await ask([Ask(SPARSE, scored, bare=True)], None)
    vector = await _arrived(dense)
    if vector is None or by_words is None:
        return merged(None, (await ask([Ask(SPARSE, limit)], None))[0])
    best = [found.number for found in by_words[:limit]]
    asks = [Ask(DENSE, limit), Ask(DENSE, len(best), best)] if best else [Ask(DENSE, limit)]
    near, *among = await ask(asks, vector)
    return merged([*near, *(found for some in among for found in some)], by_words)


async def _arrived(dense: Dense) -> Vector | None:
    return dense if dense is None or isinstance(dense, np.ndarray) else await dense


def merged(dense: list[Found] | None, sparse: list[Found] | None) -> list[Hit]:
    """In the order of the dense side, which has all that the sparse one is to give as well. None is a side that was not
    asked for. A point that the sparse side has no score for has no term in common, or is far down there."""
    if dense is None:
        return [_hit(found.payload, None, found.score) for found in sparse or ()]
    by_words = None if sparse is None else {found.number: found.score for found in sparse}
    hits: dict[str, Found] = {}
    for found in dense:
        hits.setdefault(found.number, found)
    return [
        _hit(found.payload, found.score, None if by_words is None else by_words.get(number, 0.0))
        for number, found in hits.items()
    ]


def stored_point(payload: Mapping[str, Any]) -> StoredPoint:
    return StoredPoint(payload[TENANT], payload[ID], _values(payload))


def _values(payload: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in payload.items() if name not in (ID, TENANT)}


def _hit(payload: Mapping[str, Any], dense: float | None, sparse: float | None) -> Hit:
    return Hit(payload[ID], dense, sparse, _values(payload))
