"""The port's filters in the words of Qdrant's client."""

from collections.abc import Iterable

from qdrant_client import models

from hivemem_vectors.adapters.arguments import TENANT
from hivemem_vectors.ports import Between, Condition, Equal, Filter, OneOf


def qdrant_filter(where: Filter | None, numbers: Iterable[str] = ()) -> models.Filter:
    """What the filter lets pass, and of that, where numbers of points are given, those alone."""
    must: list[models.Condition] = []
    if where is not None:
        must.append(models.FieldCondition(key=TENANT, match=models.MatchValue(value=where.tenant)))
        must += [_condition(condition) for condition in where.conditions]
    if has_id := list[models.ExtendedPointId](numbers):
        must.append(models.HasIdCondition(has_id=has_id))
    return models.Filter(must=must)


def _condition(condition: Condition) -> models.Condition:
    match condition:
        case Equal(name, value):
            return models.FieldCondition(key=name, match=models.MatchValue(value=value))
        case OneOf(name, values):
            words = [value for value in values if isinstance(value, str)]
            numbers = [value for value in values if isinstance(value, int)]
            return models.FieldCondition(key=name, match=models.MatchAny(any=words or numbers))
        case Between():
            within = models.FieldCondition(
                key=condition.field,
                range=models.Range(
                    gte=condition.at_least, gt=condition.above, lte=condition.at_most, lt=condition.below
                ),
            )
            if not condition.or_missing:
                return within
            missing = models.IsEmptyCondition(is_empty=models.PayloadField(key=condition.field))
            return models.Filter(should=[within, missing])
