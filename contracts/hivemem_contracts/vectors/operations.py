"""Each operation of the vectors service, declared once."""

from typing import Final

from hivemem_contracts.errors import NotFound
from hivemem_contracts.operations import Operation, ServiceContract
from hivemem_contracts.vectors import replies, requests

NAME: Final = "vectors"

RECALL = Operation(
    NAME,
    "recall",
    requests.Recall,
    replies.RecallAnswer,
    summary="Find memories by meaning and by words.",
)
STORE = Operation(
    NAME,
    "store",
    requests.StoreVector,
    replies.VectorStored,
    summary="Store a vector under an id, replacing the previous one.",
    writes=True,
    route="collection",
)
QUERY = Operation(
    NAME,
    "query",
    requests.QueryVectors,
    replies.VectorMatches,
    summary="Find the nearest vectors of a collection.",
    errors=(NotFound,),
)
DELETE = Operation(
    NAME,
    "delete",
    requests.DeleteVector,
    replies.VectorDeleted,
    summary="Remove a vector.",
    writes=True,
    route="collection",
)
STATUS = Operation(
    NAME,
    "status",
    requests.ReadStatus,
    replies.StatusPage,
    summary="List the index status of each memory.",
)
OVERVIEW = Operation(
    NAME,
    "overview",
    requests.ReadOverview,
    replies.IndexOverview,
    summary="Summarise the index status, and the health of the embedder and the vector store.",
)
SWEEP = Operation(
    NAME,
    "sweep",
    requests.SweepIndex,
    replies.SweepPage,
    summary="Compare memories and index, and repair the differences.",
    writes=True,
    durable=False,
)

VECTORS: Final = ServiceContract(
    NAME,
    "Vectors: memories found by meaning, and an index of one's own.",
    (RECALL, STORE, QUERY, DELETE, STATUS, OVERVIEW, SWEEP),
)
