"""The hits of both sides of a search as one list, each with both scores."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from hivemem_vectors.adapters.arguments import ID, TENANT
from hivemem_vectors.ports import Hit, StoredPoint


class Found(NamedTuple):
    """A point that one side of a search has found."""

    number: str
    score: float
    payload: Mapping[str, Any]


class Unscored(NamedTuple):
    """The points that one side has found, and the other one has no score for yet."""

    dense: list[str]
    sparse: list[str]


def unscored(dense: Iterable[Found], sparse: Iterable[Found]) -> Unscored:
    by_dense, by_sparse = {hit.number: hit for hit in dense}, {hit.number: hit for hit in sparse}
    return Unscored(
        dense=[number for number in by_sparse if number not in by_dense],
        sparse=[number for number in by_dense if number not in by_sparse],
    )


def merged(
    dense: list[Found] | None, sparse: list[Found] | None, more_dense: Iterable[Found], more_sparse: Iterable[Found]
) -> list[Hit]:
    """In the order of the dense side, then what only the sparse side has. None is a side that was not asked for.

    A point that the sparse side still has no score for has no term in common; one that the dense side has none for
    was deleted meanwhile.
    """
    dense_scores = {hit.number: hit.score for hit in (*(dense or ()), *more_dense)}
    sparse_scores = {hit.number: hit.score for hit in (*(sparse or ()), *more_sparse)}
    found = {hit.number: hit.payload for hit in (*(dense or ()), *(sparse or ()))}
    return [
        _hit(
            payload,
            None if dense is None else dense_scores[number],
            None if sparse is None else sparse_scores.get(number, 0.0),
        )
        for number, payload in found.items()
        if dense is None or number in dense_scores
    ]


def stored_point(payload: Mapping[str, Any]) -> StoredPoint:
    return StoredPoint(payload[TENANT], payload[ID], _values(payload))


def _values(payload: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in payload.items() if name not in (ID, TENANT)}


def _hit(payload: Mapping[str, Any], dense: float | None, sparse: float | None) -> Hit:
    return Hit(payload[ID], dense, sparse, _values(payload))
