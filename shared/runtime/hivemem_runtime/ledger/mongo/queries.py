"""Finding heads by a declared index: whole, as the index alone knows them, or just how many there are."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from hivemem_contracts.errors import InvalidRequest
from hivemem_runtime.ledger.cursor import decode_cursor, encode_cursor
from hivemem_runtime.ledger.entity import AnyEntity, Entity, HeadT, Index, RecordT, Scalar
from hivemem_runtime.ledger.mongo.documents import head_from, heads_of
from hivemem_runtime.ledger.mongo.driver import LOWEST, READ_MAJORITY, TOPMOST, Database, Document, Query
from hivemem_runtime.ledger.mongo.errors import translated
from hivemem_runtime.ledger.mongo.schema import find_condition, find_index, find_key
from hivemem_runtime.ledger.port import Covered, Head, Page, QueryKind

_STAGES_BELOW: Final = ("inputStage", "inputStages", "shards")

_Ends = tuple[tuple[Any, ...], tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class MongoHeadQuery:
    """A range of heads in one index, or a page of it."""

    tenant: str
    index: Index
    equals: Mapping[str, Scalar]
    low: Scalar = None
    high: Scalar = None
    reverse: bool = False
    cursor: str | None = None
    limit: int = 1

    def __post_init__(self) -> None:
        if set(self.equals) != set(self.index.equals):
            raise AssertionError(f"index {self.index.name} wants {self.index.equals}, got {tuple(self.equals)}")

    def page(self, *, covered: bool) -> Query | None:
        """Return the query for a page and one head more, or None if no head can match. It consists of index bounds
        alone: for a filter, the server would read each head and check it again."""
        low, high = self._ends()
        # The server refuses bounds that hold nothing between them, and no index holds a field without a value.
        if self.limit <= 0 or None in self.equals.values() or _is_empty(low, high):
            return None
        direction = -1 if self.reverse else 1
        return Query(
            {},
            fields=self._fields() if covered else None,
            sort=[(name, direction) for name in find_key(self.index)],
            limit=self.limit + 1,
            hint=find_index(self.index),
            low=self._bound(low),
            high=self._bound(high),
        )

    def counting(self) -> Document:
        """The command that counts them. It takes no bounds of an index, but the planner drops from a filter what the
        index itself is limited to, and all else here are such bounds."""
        index = self.index
        ordered = "_id.i" if index.order is None else f"x.{index.order}"
        between = {name: end for name, end in (("$gte", self.low), ("$lt", self.high)) if end is not None}
        wanted: Document = {
            **find_condition(index),
            "_id.t": self.tenant,
            **{f"x.{name}": self.equals[name] for name in index.equals},
            ordered: {"$gte": LOWEST, **between},
        }
        return {"query": wanted, "hint": find_index(index)}

    def cursor_after(self, document: Mapping[str, Any]) -> str:
        order = () if self.index.order is None else (document["x"][self.index.order],)
        return encode_cursor(self.index.name, *order, document["_id"]["i"])

    def _ends(self) -> _Ends:
        """From where, inclusive, to where, exclusive: values of the order, if there is one, and of the id."""
        rest = () if self.index.order is None else (LOWEST,)
        low = (LOWEST if self.low is None else self.low, *rest)
        high = (TOPMOST if self.high is None else self.high, *rest)
        if self.cursor is None:
            return low, high
        # A cursor only ever narrows the range, whoever made it.
        *order, id = self._place(self.cursor)
        if self.reverse:
            before = (*order, id)
            return low, before if self.high is None or before[0] < self.high else high
        # The lower bound is included: begin with the id that comes next after the last one.
        after = (*order, id + "\0")
        return after if self.low is None or after[0] >= self.low else low, high

    def _place(self, cursor: str) -> list[Any]:
        kinds: tuple[type | tuple[type, ...], ...] = (str,) if self.index.order is None else ((int, str), str)
        name, *place = decode_cursor(cursor, (str, *kinds))
        like = self.low if self.high is None else self.high
        if name != self.index.name or (like is not None and isinstance(like, str) != isinstance(place[0], str)):
            raise InvalidRequest("cursor: it belongs to another list", field="cursor")
        return place

    def _bound(self, place: tuple[Any, ...]) -> list[tuple[str, Any]]:
        values = [self.tenant, *(self.equals[name] for name in self.index.equals), *place]
        values += [LOWEST] * len(self.index.covering)
        return list(zip(find_key(self.index), values, strict=True))

    def _fields(self) -> Document:
        names = (*self.index.covering, *(() if self.index.order is None else (self.index.order,)))
        return {"_id.i": 1, **{f"x.{name}": 1 for name in names}}


def _is_empty(low: tuple[Any, ...], high: tuple[Any, ...]) -> bool:
    for from_, to in zip(low, high, strict=True):
        if from_ != to:
            return bool(from_ is not LOWEST and to is not TOPMOST and (to is LOWEST or from_ > to))
    return True


async def find_heads(database: Database, entity: Entity[HeadT, RecordT], wanted: MongoHeadQuery) -> Page[Head[HeadT]]:
    documents, cursor = await _page(database, entity, wanted, covered=False)
    return Page([head_from(entity, document) for document in documents], cursor)


async def find_covered(database: Database, entity: AnyEntity, wanted: MongoHeadQuery) -> Page[Covered]:
    documents, cursor = await _page(database, entity, wanted, covered=True)
    return Page([_covered(wanted.index, document) for document in documents], cursor)


async def _page(
    database: Database, entity: AnyEntity, wanted: MongoHeadQuery, *, covered: bool
) -> tuple[list[Document], str | None]:
    query = wanted.page(covered=covered)
    if query is None:
        return [], None
    with translated():
        documents = await database.find(heads_of(entity.name), query)
    if len(documents) <= wanted.limit:
        return documents, None
    return documents[: wanted.limit], wanted.cursor_after(documents[wanted.limit - 1])


def _covered(index: Index, document: Mapping[str, Any]) -> Covered:
    fields: Mapping[str, Any] = document.get("x", {})
    return Covered(document["_id"]["i"], {name: _scalar(fields.get(name)) for name in index.covering})


def _scalar(value: Any) -> Scalar:
    """Without the driver's own type for a long integer."""
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else cast("Scalar", value)


async def count_heads(database: Database, entity: AnyEntity, wanted: MongoHeadQuery) -> int:
    if wanted.page(covered=True) is None:
        return 0
    command = {"count": heads_of(entity.name), **wanted.counting(), "readConcern": READ_MAJORITY}
    with translated():
        reply = await database.command(command)
    return int(reply["n"])


async def explain_query(database: Database, entity: AnyEntity, index: Index, kind: QueryKind) -> list[str]:
    """The steps of the winning plan, outermost first, with the index that it reads."""
    equals: dict[str, Scalar] = dict.fromkeys(index.equals, "x")
    wanted = MongoHeadQuery("t", index, equals, limit=10)
    heads = heads_of(entity.name)
    with translated():
        if kind == "count":
            explained = await database.command({"explain": {"count": heads, **wanted.counting()}})
        else:
            query = wanted.page(covered=kind == "covered")
            assert query is not None
            explained = await database.explain(heads, query)
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
