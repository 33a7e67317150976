"""The request bodies of the vectors service."""

from typing import Annotated

from pydantic import ConfigDict, Field, StringConstraints

from hivemem_contracts.field_rules import combination, refuses
from hivemem_contracts.fields import Cursor, Limit, Metadata, Version
from hivemem_contracts.identifiers import Id, Namespace, NamespacePrefix
from hivemem_contracts.limits import (
    LIST_DEFAULT,
    QUERY_CHARACTERS,
    RECALL_CONTEXT,
    RECALL_MAXIMUM,
    RECALL_SESSIONS,
    RECALL_WAIT_DEFAULT_MS,
    RECALL_WAIT_MAXIMUM_MS,
    VECTOR_METADATA_BYTES,
)
from hivemem_contracts.memory.models import MemoryType
from hivemem_contracts.model import RequestBody
from hivemem_contracts.patterns import NOT_BLANK
from hivemem_contracts.sizes import MaxBytes
from hivemem_contracts.vectors.models import Collection, Embedding, IndexState, ItemKind, Matched, RecallFilter, Weights

TopK = Annotated[int, Field(ge=1, le=RECALL_MAXIMUM)]


class StoreVector(RequestBody):
    id: Id
    embedding: Embedding
    metadata: Annotated[Metadata, MaxBytes(VECTOR_METADATA_BYTES)] = Field(default_factory=dict)
    collection: Collection = Field(
        default="default", description="Created by its first vector, which sets its dimension."
    )


class QueryVectors(RequestBody):
    embedding: Embedding
    top_k: TopK = 10
    filter: Matched | None = Field(default=None, description="Metadata fields with their required values.")
    collection: Collection = "default"


class DeleteVector(RequestBody):
    id: Id
    collection: Collection = "default"


class Recall(RequestBody):
    """Find memories and events by meaning and by words."""

    model_config = ConfigDict(json_schema_extra=refuses(combination(true=["rerank"], given=["cursor"])))

    query: Annotated[str, StringConstraints(min_length=1, max_length=QUERY_CHARACTERS, pattern=NOT_BLANK)]
    namespace_prefix: NamespacePrefix | None = None
    memory_type: MemoryType | None = None
    kinds: Annotated[list[ItemKind], Field(min_length=1, max_length=2)] | None = Field(
        default=None, description="Only items of these kinds."
    )
    user_id: Id | None = Field(default=None, description="Only events of this user's sessions.")
    app_name: Id | None = Field(default=None, description="Only events of this app's sessions.")
    project_id: Id | None = Field(default=None, description="Only events of this project's sessions.")
    session_ids: Annotated[list[Id], Field(min_length=1, max_length=RECALL_SESSIONS)] | None = Field(
        default=None, description="Only events of these sessions."
    )
    context: Annotated[int, Field(ge=0, le=RECALL_CONTEXT)] = Field(
        default=0, description="Add at most this many events of its session before and after each event."
    )
    filter: RecallFilter | None = None
    limit: TopK = 10
    cursor: Cursor | None = Field(
        default=None, description="Continue after the previous page of the same question; not with `rerank`."
    )
    weights: Weights | None = None
    rerank: bool = Field(default=False, description="Let the hive's reranker order the best items.")
    max_tokens: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(
        default=None,
        description="Limit the values, and the texts of `context`, to about this many tokens; "
        "an item over the limit is skipped.",
    )
    min_version: Version | None = Field(
        default=None,
        description="Wait until a memory below the prefix is found at this version or a later one; "
        f"for {RECALL_WAIT_DEFAULT_MS} ms, if `wait_ms` is left out.",
    )
    wait_ms: Annotated[int, Field(ge=0, le=RECALL_WAIT_MAXIMUM_MS)] | None = Field(
        default=None, description="Wait at most this long until all earlier acknowledged writes are indexed."
    )
    explain: bool = Field(default=False, description="Return the words of each item that matched.")


class ReadStatus(RequestBody):
    """List the index status of all memories, of a namespace or of one memory."""

    model_config = ConfigDict(json_schema_extra=refuses(combination(given=["key"], missing=["namespace"])))

    namespace: Namespace | None = Field(default=None, description="Exactly this namespace; all if left out.")
    key: Id | None = Field(default=None, description="One memory of the namespace.")
    state: IndexState | None = None
    limit: Limit = LIST_DEFAULT
    cursor: Cursor | None = None


class ReadOverview(RequestBody):
    pass


class SweepIndex(RequestBody):
    dry_run: bool = Field(default=False, description="Only count the differences.")
    cursor: Cursor | None = Field(default=None, description="Continue a long sweep.")
