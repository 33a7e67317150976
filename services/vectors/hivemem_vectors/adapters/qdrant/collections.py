"""How a collection is laid out on the server, and what a server's collection was made for.

Tenants share a collection: searches name one tenant each, so there is no graph over all points but one for each tenant
and for each value of the indexed fields that has many points, and the points of a tenant lie side by side.
"""

from typing import Final, Literal, TypeAlias

from qdrant_client import AsyncQdrantClient, models

from hivemem_contracts.errors import InvalidRequest
from hivemem_vectors.adapters.arguments import TENANT
from hivemem_vectors.adapters.merging import DENSE, SPARSE
from hivemem_vectors.ports import FieldKind, Schema

Quantization: TypeAlias = Literal["none", "scalar"]

_MODEL: Final = "hivemem_model"
_GLOBAL_LINKS: Final = 0
_TENANT_LINKS: Final = 16
_BUILD_CANDIDATES: Final = 128
_KINDS: Final[dict[FieldKind, models.PayloadSchemaType]] = {
    "keyword": models.PayloadSchemaType.KEYWORD,
    "integer": models.PayloadSchemaType.INTEGER,
    "float": models.PayloadSchemaType.FLOAT,
}


async def create(client: AsyncQdrantClient, collection: str, schema: Schema, quantization: Quantization) -> None:
    scalar = models.ScalarQuantization(
        scalar=models.ScalarQuantizationConfig(type=models.ScalarType.INT8, quantile=0.99, always_ram=True)
    )
    await client.create_collection(
        collection,
        vectors_config={DENSE: models.VectorParams(size=schema.dimension, distance=models.Distance.COSINE)},
        sparse_vectors_config={SPARSE: models.SparseVectorParams(modifier=models.Modifier.IDF)},
        hnsw_config=models.HnswConfigDiff(m=_GLOBAL_LINKS, payload_m=_TENANT_LINKS, ef_construct=_BUILD_CANDIDATES),
        quantization_config=scalar if quantization == "scalar" else None,
        metadata={_MODEL: schema.model},
    )


async def create_indexes(
    client: AsyncQdrantClient, collection: str, info: models.CollectionInfo, schema: Schema
) -> None:
    """Those that are missing."""
    if TENANT not in info.payload_schema:
        params = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)
        await client.create_payload_index(collection, TENANT, params)
    for name, kind in schema.fields.items():
        if name not in info.payload_schema:
            await client.create_payload_index(collection, name, _KINDS[kind])


def schema_of(collection: str, info: models.CollectionInfo) -> Schema:
    vectors, model = info.config.params.vectors, (info.config.metadata or {}).get(_MODEL)
    dense = vectors.get(DENSE) if isinstance(vectors, dict) else None
    if dense is None or not isinstance(model, str):
        raise InvalidRequest(f"the collection {collection} of the vector store is none of Hivemem", field="collection")
    kinds: dict[str, FieldKind] = {known: kind for kind, known in _KINDS.items()}
    fields: dict[str, FieldKind] = {
        name: kinds[index.data_type]
        for name, index in info.payload_schema.items()
        if name != TENANT and index.data_type in kinds
    }
    return Schema(dense.size, model, fields)
