"""The calls of the engine on the points of one collection. All of them block."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import numpy as np
from qdrant_edge import (
    CountRequest,
    Distance,
    EdgeConfig,
    EdgeOptimizersConfig,
    EdgeShard,
    EdgeSparseVectorParams,
    EdgeVectorParams,
    FieldCondition,
    Filter,
    FloatIndexParams,
    HasIdCondition,
    HnswIndexConfig,
    IntegerIndexParams,
    IsEmptyCondition,
    KeywordIndexParams,
    MatchAny,
    MatchValue,
    Modifier,
    PayloadSchemaType,
    Point,
    Query,
    QueryRequest,
    RangeFloat,
    ScrollRequest,
    SearchParams,
    SparseVector,
    UpdateOperation,
)

from hivemem_vectors.stores.edge.frames import points_of
from hivemem_vectors.stores.payloads import DENSE, ID, SPARSE, TENANT


def edge_filter(where: Mapping[str, Any] | None, numbers: Iterable[str] = ()) -> Filter | None:
    """Return the filter in the engine's terms. With keys, only those points pass."""
    must: list[Any] = []
    if where is not None:
        must.append(FieldCondition(key=TENANT, match=MatchValue(where["tenant"])))
        must += [_condition(condition) for condition in where["conditions"]]
    if has_id := set[int | UUID | str](UUID(number) for number in numbers):
        must.append(HasIdCondition(has_id))
    return Filter(must=must) if must else None


def _condition(condition: Mapping[str, Any]) -> Any:
    """Return a condition of the port, which came as an object with its fields, in the engine's terms."""
    match condition:
        case {"field": name, "value": value}:
            return FieldCondition(key=name, match=MatchValue(value))
        case {"field": name, "values": values}:
            return FieldCondition(key=name, match=MatchAny(values))
        case {"field": name, "at_least": gte, "above": gt, "at_most": lte, "below": lt, "or_missing": or_missing}:
            within = FieldCondition(key=name, range=RangeFloat(gte=gte, gt=gt, lte=lte, lt=lt))
            return Filter(should=[within, IsEmptyCondition(name)]) if or_missing else within
        case _:
            raise ValueError(f"no condition has the fields {list(condition)}")


FoundPoint = tuple[str, float, Mapping[str, Any]]
"""A key, a score and a payload: the arguments of `payloads.hit_of`."""

SEARCH_CANDIDATES: Final = 768
"""A large tenant has one graph. With this many candidates all of the ten nearest are found."""

_GLOBAL_LINKS: Final = 0
_TENANT_LINKS: Final = 16
_BUILD_CANDIDATES: Final = 200
_FULL_SCAN_KILOBYTES: Final = 10_000
_EXACTLY: Final = SearchParams(exact=True)
_BY_GRAPH: Final = SearchParams(hnsw_ef=SEARCH_CANDIDATES)


def create_shard(folder: Path, dimension: int) -> EdgeShard:
    """Create a shard with one graph per large tenant, and none over all points, because a search names one tenant."""
    folder.mkdir()
    config = EdgeConfig(
        vectors={DENSE: EdgeVectorParams(size=dimension, distance=Distance.Cosine)},
        sparse_vectors={SPARSE: EdgeSparseVectorParams(modifier=Modifier.Idf)},
        hnsw_config=HnswIndexConfig(
            m=_GLOBAL_LINKS,
            payload_m=_TENANT_LINKS,
            ef_construct=_BUILD_CANDIDATES,
            full_scan_threshold=_FULL_SCAN_KILOBYTES,
            max_indexing_threads=1,
        ),
        optimizers=EdgeOptimizersConfig(default_segment_number=1),
    )
    shard = EdgeShard.create(str(folder), config)
    shard.update(UpdateOperation.create_field_index(TENANT, KeywordIndexParams(is_tenant=True)))
    return shard


_IndexParams = KeywordIndexParams | IntegerIndexParams | FloatIndexParams

_KINDS: Final[Mapping[str, tuple[PayloadSchemaType, _IndexParams]]] = {
    "keyword": (PayloadSchemaType.Keyword, KeywordIndexParams()),
    "integer": (PayloadSchemaType.Integer, IntegerIndexParams(enable_hnsw=False)),
    "float": (PayloadSchemaType.Float, FloatIndexParams(enable_hnsw=False)),
}


def fields_of(shard: EdgeShard) -> dict[str, str]:
    schema = shard.info().payload_schema
    return {
        name: kind
        for name, index in schema.items()
        for kind, (known, _) in _KINDS.items()
        if name != TENANT and index.data_type == known
    }


def apply(shard: EdgeShard, fields: Mapping[str, Any], data: bytes) -> None:
    """Apply a change. Applying it twice is the same as once."""
    match fields["op"]:
        case "upsert":
            shard.update(UpdateOperation.upsert_points([_point(*parts) for parts in points_of(fields, data)]))
        case "delete":
            shard.update(UpdateOperation.delete_points([UUID(number) for number in fields["numbers"]]))
        case "delete_where":
            where = edge_filter(fields["where"])
            assert where is not None, "a filter names a tenant"
            shard.update(UpdateOperation.delete_points_by_filter(where))
        case "index":
            known = fields_of(shard)
            for name, kind in fields["fields"].items():
                if name not in known:
                    _, params = _KINDS[kind]
                    shard.update(UpdateOperation.create_field_index(name, params))
        case op:
            raise ValueError(f"no change is called {op}")


def search(shard: EdgeShard, fields: Mapping[str, Any], data: bytes) -> list[list[FoundPoint]]:
    """Return the points that each query of a frame finds."""
    return [_found(shard, fields, data, query) for query in fields["queries"]]


def scroll(shard: EdgeShard, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the payloads of a page, and the mark of the next one."""
    after = fields["after"]
    records, following = shard.scroll(
        ScrollRequest(
            offset=None if after is None else UUID(after),
            limit=fields["limit"],
            filter=edge_filter(fields["where"]),
            with_payload=True,
        )
    )
    return {"payloads": [record.payload for record in records], "next": None if following is None else str(following)}


def count(shard: EdgeShard, where: Mapping[str, Any] | None) -> int:
    return shard.count(CountRequest(exact=True, filter=edge_filter(where)))


def _found(shard: EdgeShard, fields: Mapping[str, Any], data: bytes, query: Mapping[str, Any]) -> list[FoundPoint]:
    if query["side"] == DENSE:
        nearest = Query.Nearest(np.frombuffer(data, np.float32).tolist(), using=DENSE)
    else:
        terms = query["terms"]
        nearest = Query.Nearest(SparseVector(terms["indices"], terms["values"]), using=SPARSE)
    among, values = query["among"], fields["values"]
    request = QueryRequest(
        limit=query["limit"],
        query=nearest,
        # Points that were found behind the filter need not pass it again.
        filter=edge_filter(None if among else fields["where"], among),
        params=_EXACTLY if among else _BY_GRAPH,
        with_payload=False if query.get("bare") else True if values is None else [ID, *values],
    )
    return [(str(point.id), point.score, point.payload or {}) for point in shard.query(request)]


def _point(number: str, payload: dict[str, Any], dense: list[float], indices: list[int], values: list[float]) -> Point:
    vectors: dict[str, Any] = {DENSE: dense}
    if indices:
        vectors[SPARSE] = SparseVector(indices, values)
    return Point(UUID(number), vectors, payload)
