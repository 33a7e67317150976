"""Reading heads: by key, by a declared index, and those with something to announce."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from hivemem_contracts.errors import InvalidRequest
from hivemem_runtime.ledger.cursor import decode_cursor, encode_cursor
from hivemem_runtime.ledger.entity import AnyEntity, Entity, HeadT, Index, RecordT, Scalar
from hivemem_runtime.ledger.mongo.cache import HeadKey
from hivemem_runtime.ledger.mongo.documents import head_from, head_id, heads_of
from hivemem_runtime.ledger.mongo.driver import LOWEST, TOPMOST, Database, Document, Query
from hivemem_runtime.ledger.mongo.errors import translated
from hivemem_runtime.ledger.mongo.schema import DUE, find_condition, find_index, find_key
from hivemem_runtime.ledger.port import Due, Head, Page

_STAGES_BELOW: Final = ("inputStage", "inputStages", "shards")


@dataclass(frozen=True, slots=True)
class Wanted:
    """One page of heads by one index."""

    tenant: str
    index: Index
    equals: Mapping[str, Scalar]
    low: Scalar
    high: Scalar
    reverse: bool
    cursor: str | None
    limit: int

    def query(self) -> Query:
        """The page and one head more. Tenant, `equals`, order and cursor are bounds of the index itself."""
        after = None if self.cursor is None else self._place(self.cursor)
        low: tuple[Any, Any] = (LOWEST if self.low is None else self.low, LOWEST)
        high: tuple[Any, Any] = (TOPMOST if self.high is None else self.high, LOWEST)
        if after is not None and self.reverse:
            high = after
        elif after is not None:
            # The lower bound is included: begin with the id that comes next after the last one.
            low = (after[0], after[1] + "\0")
        direction = -1 if self.reverse else 1
        return Query(
            find_condition(self.index),
            sort=[(name, direction) for name in find_key(self.index)],
            limit=self.limit + 1,
            hint=find_index(self.index),
            low=self._bound(low),
            high=self._bound(high),
        )

    def cursor_after(self, document: Mapping[str, Any]) -> str:
        return encode_cursor(self.index.name, document["x"][self.index.order], document["_id"]["i"])

    def _place(self, cursor: str) -> tuple[Scalar, str]:
        name, order, id = decode_cursor(cursor, (str, (int, str), str))
        if name != self.index.name:
            raise InvalidRequest("cursor: it belongs to another list", field="cursor")
        return order, id

    def _bound(self, place: tuple[Any, Any]) -> list[tuple[str, Any]]:
        values = [self.tenant, *(self.equals[name] for name in self.index.equals), *place]
        values += [LOWEST] * len(self.index.covering)
        return list(zip(find_key(self.index), values, strict=True))


async def read_heads(
    database: Database, entity: Entity[HeadT, RecordT], tenant: str, ids: Sequence[str]
) -> dict[str, Head[HeadT]]:
    if not ids:
        return {}
    query = Query({"_id": {"$in": [head_id(tenant, id) for id in dict.fromkeys(ids)]}})
    with translated():
        documents = await database.find(heads_of(entity.name), query)
    return {head.id: head for head in (head_from(entity, document) for document in documents)}


async def find_heads(database: Database, entity: Entity[HeadT, RecordT], wanted: Wanted) -> Page[Head[HeadT]]:
    if set(wanted.equals) != set(wanted.index.equals):
        fields = f"{wanted.index.equals}, got {tuple(wanted.equals)}"
        raise AssertionError(f"index {wanted.index.name} of {entity.name} wants {fields}")
    query = wanted.query()
    if _is_empty(wanted, query):
        return Page([], None)
    with translated():
        documents = await database.find(heads_of(entity.name), query)
    more = len(documents) > wanted.limit
    items = [head_from(entity, document) for document in documents[: wanted.limit]]
    return Page(items, wanted.cursor_after(documents[wanted.limit - 1]) if more and wanted.limit > 0 else None)


def _is_empty(wanted: Wanted, query: Query) -> bool:
    """The server refuses bounds that hold nothing between them, and no index holds a field without a value."""
    if any(value is None for value in wanted.equals.values()) or wanted.limit <= 0:
        return True
    lowest, topmost = dict(query.low), dict(query.high)
    order = f"x.{wanted.index.order}"
    low, high = lowest[order], topmost[order]
    if low is LOWEST or high is TOPMOST:
        return False
    return bool(low > high or (low == high and topmost["_id.i"] is LOWEST))


async def explain_find(database: Database, entity: AnyEntity, index: Index) -> list[str]:
    """The steps of the winning plan for a page of `find`, outermost first, with the index that it reads."""
    equals: dict[str, Scalar] = dict.fromkeys(index.equals, "x")
    query = Wanted("t", index, equals, None, None, reverse=False, cursor=None, limit=10).query()
    with translated():
        explained = await database.explain(heads_of(entity.name), query)
    winning = explained["queryPlanner"]["winningPlan"]
    return list(_steps(cast("Document", winning.get("queryPlan", winning))))


def _steps(plan: Mapping[str, Any]) -> list[str]:
    steps = [" ".join(str(plan[name]) for name in ("stage", "indexName") if name in plan)]
    for name in _STAGES_BELOW:
        below = plan.get(name, [])
        stages = cast("list[Document]", below if isinstance(below, list) else [below])
        for stage in stages:
            steps += _steps(stage)
    return steps


async def read_due(
    database: Database, entities: Sequence[AnyEntity], marks: Mapping[HeadKey, int], older_than: int, limit: int
) -> list[Due]:
    found = await asyncio.gather(*(_due_of(database, entity, marks, older_than, limit) for entity in entities))
    return sorted((due for part in found for due in part), key=lambda due: due.at)[:limit]


async def _due_of(
    database: Database, entity: AnyEntity, marks: Mapping[HeadKey, int], older_than: int, limit: int
) -> list[Due]:
    query = Query(
        {"due": True, "at": {"$lt": older_than}},
        fields={"body": 0, "x": 0},
        sort=[("at", 1)],
        limit=limit,
        hint=DUE,
    )
    with translated():
        documents = await database.find(heads_of(entity.name), query)
    found: list[Due] = []
    for document in documents:
        tenant, id = document["_id"]["t"], document["_id"]["i"]
        announced = max(document["announced"], marks.get((entity.name, tenant, id), 0))
        if announced < document["version"]:
            found.append(
                Due(
                    tenant,
                    entity.name,
                    id,
                    announced,
                    document["version"],
                    "erased" in document,
                    document["at"],
                    document.get("actor", ""),
                    document.get("cause"),
                )
            )
    return found
