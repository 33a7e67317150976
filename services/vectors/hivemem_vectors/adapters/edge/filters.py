"""The filters of a frame in the words of the engine."""

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from qdrant_edge import (
    FieldCondition,
    Filter,
    HasIdCondition,
    IsEmptyCondition,
    MatchAny,
    MatchValue,
    RangeFloat,
)

from hivemem_vectors.adapters.arguments import TENANT


def edge_filter(where: Mapping[str, Any] | None, numbers: Iterable[str] = ()) -> Filter | None:
    """What the filter lets pass, and of that, where numbers of points are given, those alone."""
    must: list[Any] = []
    if where is not None:
        must.append(FieldCondition(key=TENANT, match=MatchValue(where["tenant"])))
        must += [_condition(condition) for condition in where["conditions"]]
    if has_id := set[int | UUID | str](UUID(number) for number in numbers):
        must.append(HasIdCondition(has_id))
    return Filter(must=must) if must else None


def _condition(condition: Mapping[str, Any]) -> Any:
    name = condition["field"]
    if "equal" in condition:
        return FieldCondition(key=name, match=MatchValue(condition["equal"]))
    if "one_of" in condition:
        return FieldCondition(key=name, match=MatchAny(condition["one_of"]))
    within = FieldCondition(key=name, range=RangeFloat(**condition["between"]))
    return Filter(should=[within, IsEmptyCondition(name)]) if condition["or_missing"] else within
