"""The shapes of memories on the wire."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, JsonValue, StringConstraints, WithJsonSchema
from pydantic_core import PydanticCustomError

from hivemem_contracts.fields import Metadata, Version
from hivemem_contracts.identifiers import AgentName, Id, Namespace, Time
from hivemem_contracts.json_values import FromPython, Json
from hivemem_contracts.limits import (
    ID_CHARACTERS,
    MEMORY_INDEX_TEXTS,
    MEMORY_VALUE_BYTES,
    MEMORY_WHERE_BYTES,
    MEMORY_WHERE_FIELDS,
    VALUE_BYTES,
)
from hivemem_contracts.model import ReplyBody, RequestBody
from hivemem_contracts.patterns import NOT_BLANK
from hivemem_contracts.sizes import MaxBytes

MemoryType = Literal["semantic", "episodic", "procedural"]
MemoryValue = Annotated[Json, FromPython(), MaxBytes(MEMORY_VALUE_BYTES)]
"""Any JSON, of a limited size."""

Where = Annotated[
    dict[Annotated[str, StringConstraints(min_length=1, max_length=ID_CHARACTERS)], str | int | float | bool | None],
    Field(min_length=1, max_length=MEMORY_WHERE_FIELDS),
    MaxBytes(MEMORY_WHERE_BYTES),
]
"""Fields of a memory's value with the values that they must have; `a.b` is the field `b` of the object in `a`."""


def _require_false(value: bool) -> bool:
    if value:
        raise PydanticCustomError("index", "null indexes the memory by its own text, true means nothing")
    return value


IndexedText = Annotated[str, StringConstraints(min_length=1, pattern=NOT_BLANK)]
IndexedAs = (
    Annotated[list[IndexedText], Field(min_length=1, max_length=MEMORY_INDEX_TEXTS), MaxBytes(VALUE_BYTES)]
    | Annotated[bool, AfterValidator(_require_false), WithJsonSchema({"type": "boolean", "const": False})]
)
"""The texts by which recall finds a memory; `false`: recall does not find it."""

Importance = Annotated[float, Field(ge=0, le=1)]
Token = Annotated[int, Field(ge=1, le=2**53)]


class Source(RequestBody):
    """Where a memory comes from, as its writer says: at least one field."""

    session_id: Id | None = None
    event_id: Id | None = Field(default=None, description="An event of the session; needs `session_id`.")
    task_id: Id | None = None
    agent_id: Id | None = Field(default=None, description="The agent that found it out.")
    cycle: Annotated[int, Field(ge=1, le=2**53)] | None = Field(
        default=None, description="A cycle of the agent; needs `agent_id`."
    )
    document: Id | None = Field(default=None, description="The path of a document.")


class MemoryKey(RequestBody):
    """Names one memory."""

    namespace: Namespace
    key: Id


class LeaseClaim(RequestBody):
    """The lease that a write relies on: the write is refused unless its token is the current one."""

    namespace: Namespace
    key: Id | None = Field(default=None, description="If left out: the lease on the whole namespace.")
    token: Token


class Copied(RequestBody):
    """The origin of a memory that was copied by a fork or an import."""

    namespace: Namespace
    key: Id
    version: Version
    created_by: AgentName
    created_at: Time
    updated_by: AgentName
    updated_at: Time


class Memory(ReplyBody):
    """A memory at one of its versions."""

    namespace: str
    key: str
    value: JsonValue = Field(default=None, description="null if it is deleted.")
    memory_type: MemoryType
    version: int = Field(description="Counts its changes, including deletions.")
    deleted: bool
    metadata: Metadata
    importance: float | None = None
    valid_from: Time | None = None
    valid_to: Time | None = None
    expires_at: Time | None = Field(default=None, description="When it is deleted automatically.")
    source: Source | None = None
    index: Literal[False] | list[str] | None = Field(
        default=None,
        description="The texts by which recall finds it; false: recall does not find it; null: by its own text.",
    )
    copied_from: Copied | None = None
    digest: str = Field(description="SHA-256 of the version's whole content, in hexadecimal.")
    created_by: str
    updated_by: str
    created_at: Time
    updated_at: Time


VersionOperation = Literal["put", "patch", "delete", "restore", "fork", "import", "expire", "unlink"]


class Difference(ReplyBody):
    """One difference between two JSON values."""

    path: str = Field(description="A JSON pointer; empty: the whole value.")
    change: Literal["added", "removed", "changed"]
    before: JsonValue = None
    after: JsonValue = None


class MemoryVersion(Memory):
    """One version in the history of a memory."""

    operation: VersionOperation = Field(description="The operation that made it.")
    request_id: str | None = Field(default=None, description="The idempotency key of the write.")
    diff: list[Difference] | None = Field(
        default=None, description="The differences to the previous version, if requested."
    )
    diff_omitted: bool = Field(
        default=False, description="True if the diff would be too large: compare the two values."
    )


class LeaseHolder(ReplyBody):
    """The holder of a lease, and the length of its queue."""

    holder: str | None = Field(default=None, description="The agent that holds it; null: none.")
    token: int = Field(description="The token of the holder, or of the last one; a later holder has a higher one.")
    expires_at: Time | None = None
    waiting: int = Field(description="Number of requests in its queue.")


class AuditEntry(ReplyBody):
    """One link of the tenant's chain: who did what, when, through which request."""

    position: int = Field(description="Counts the links of the chain from 1, without a gap.")
    at: Time
    actor: str
    operation: str = Field(description="Such as `put`, `deleted`, `erased`, `export`.")
    namespace: str | None = None
    key: str | None = None
    from_version: int | None = None
    to_version: int | None = None
    request_id: str | None = None
    task_id: str | None = Field(default=None, description="The task that the source of the version names.")
    outcome: Literal["done", "refused"]
    error: str | None = Field(default=None, description="The name of the error, if it was refused.")
    digest: str | None = Field(default=None, description="The digest of the written version.")
    hash: str = Field(description="SHA-256 over the previous link and this one.")


class Confirmation(ReplyBody):
    """A worker's confirmation that it has removed its copies of erased data."""

    worker: str
    removed: int = Field(description="Number of removed copies.")
    at: Time


class ErasureReceipt(ReplyBody):
    """What an erasure did, and which workers have confirmed it."""

    receipt: str
    namespace: str
    key: str | None = None
    status: Literal["running", "done"] = Field(
        description="`done` once the memories are removed and every worker with copies has confirmed."
    )
    entries: int = Field(description="Number of memories removed so far.")
    versions: int = Field(description="Number of versions removed so far.")
    requested_by: str
    requested_at: Time
    finished_at: Time | None = None
    confirmed: list[Confirmation]
    awaited: list[str] = Field(
        default_factory=list, description="The workers that have not confirmed yet, once the memories are removed."
    )
