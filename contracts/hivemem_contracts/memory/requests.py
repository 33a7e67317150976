"""The request bodies of the memory service."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from hivemem_contracts.field_rules import combination, refuses
from hivemem_contracts.fields import Cursor, ExpectedVersion, Limit, Metadata, Version
from hivemem_contracts.identifiers import AgentName, Id, Namespace, NamespacePrefix, NamespaceSuffix, Time
from hivemem_contracts.limits import (
    BATCH_ITEMS,
    ID_CHARACTERS,
    LEASE_MAXIMUM_MS,
    LEASE_MINIMUM_MS,
    LEASE_WAIT_MAXIMUM_MS,
    LIST_DEFAULT,
)
from hivemem_contracts.memory.models import (
    Copied,
    Importance,
    IndexedAs,
    LeaseClaim,
    MemoryKey,
    MemoryType,
    MemoryValue,
    Source,
    Token,
    Where,
)
from hivemem_contracts.model import RequestBody


class PutMemory(RequestBody):
    """Put a memory. Each put replaces `value`; other fields that are left out stay as they were."""

    default_is_absent = False

    namespace: Namespace
    key: Id
    value: MemoryValue
    memory_type: MemoryType | None = Field(default=None, description="`semantic` for a new memory.")
    metadata: Metadata | None = None
    importance: Importance | None = Field(default=None, description="0 to 1; an explicit null removes it.")
    valid_from: Time | None = Field(default=None, description="The start of its validity; an explicit null removes it.")
    valid_to: Time | None = Field(default=None, description="The end of its validity; an explicit null removes it.")
    expires_at: Time | None = Field(default=None, description="When to delete it; an explicit null removes it.")
    source: Source | None = Field(default=None, description="Where it comes from; an explicit null removes it.")
    index: IndexedAs | None = Field(
        default=None,
        description="The texts by which recall finds it; false: recall does not find it; an explicit null: by its own "
        "text.",
    )
    expect_version: ExpectedVersion | None = None
    lease: LeaseClaim | None = None


class PatchMemory(RequestBody):
    namespace: Namespace
    key: Id
    patch: MemoryValue = Field(description="A JSON merge patch (RFC 7396): `null` removes a field.")
    source: Source | None = Field(default=None, description="Where this change comes from; it stays if left out.")
    expect_version: ExpectedVersion | None = None
    lease: LeaseClaim | None = None


class PutMemories(RequestBody):
    default_is_absent = False

    puts: list[PutMemory] = Field(min_length=1, max_length=BATCH_ITEMS)


class GetMemory(RequestBody):
    """Read a memory: now, at a version, or as of a moment."""

    model_config = ConfigDict(json_schema_extra=refuses(combination(given=["version", "as_of"])))

    namespace: Namespace
    key: Id
    version: Version | None = Field(default=None, description="As it was at this version.")
    as_of: Time | None = Field(default=None, description="As it was at this moment.")
    include_deleted: bool = Field(default=False, description="Return a deleted memory instead of NotFound.")


class GetMemories(RequestBody):
    keys: list[MemoryKey] = Field(min_length=1, max_length=BATCH_ITEMS)


class DeleteMemory(RequestBody):
    namespace: Namespace
    key: Id
    source: Source | None = Field(default=None, description="Where this change comes from; it stays if left out.")
    expect_version: ExpectedVersion | None = None
    lease: LeaseClaim | None = None


class DeleteMemories(RequestBody):
    deletes: list[DeleteMemory] = Field(min_length=1, max_length=BATCH_ITEMS)


class RestoreMemory(RequestBody):
    namespace: Namespace
    key: Id
    version: Version | None = Field(
        default=None, description="The version to restore; the one before its deletion if left out."
    )
    source: Source | None = Field(default=None, description="Where this change comes from; it stays if left out.")
    expect_version: ExpectedVersion | None = None
    lease: LeaseClaim | None = None


class ReadHistory(RequestBody):
    namespace: Namespace
    key: Id
    diff: bool = Field(default=False, description="Include the differences of each version to the previous one.")
    limit: Limit = LIST_DEFAULT
    cursor: Cursor | None = None


class ListMemories(RequestBody):
    prefix: NamespacePrefix
    memory_type: MemoryType | None = None
    created_by: AgentName | None = None
    updated_after: Time | None = Field(default=None, description="Only memories written later than this.")
    valid_at: Time | None = Field(default=None, description="Only memories valid at this moment.")
    where: Where | None = Field(
        default=None,
        description="Only memories whose values have these fields with these values; `a.b` is a field of an object.",
    )
    include_deleted: bool = False
    sort: Literal["key", "-updated_at"] = Field(
        default="key", description="By namespace and key, or newest write first."
    )
    limit: Limit = LIST_DEFAULT
    cursor: Cursor | None = None


class CountMemories(RequestBody):
    prefix: NamespacePrefix
    memory_type: MemoryType | None = None
    created_by: AgentName | None = None
    include_deleted: bool = False


class ListNamespaces(RequestBody):
    prefix: NamespacePrefix | None = Field(default=None, description="All namespaces, if left out.")
    suffix: NamespaceSuffix | None = Field(default=None, description="Only namespaces that end with these segments.")
    depth: Annotated[int, Field(ge=1, le=ID_CHARACTERS)] | None = Field(
        default=None, description="Cut longer namespaces to this many segments, each result once."
    )
    limit: Limit = LIST_DEFAULT
    cursor: Cursor | None = None


class SnapshotNamespace(RequestBody):
    namespace: NamespacePrefix
    as_of: Time | None = Field(default=None, description="Now, if left out; following pages use the same moment.")
    limit: Limit = LIST_DEFAULT
    cursor: Cursor | None = None


class DiffNamespace(RequestBody):
    # `from` is a word of Python, so Python says `start` and `end`; the wire has the aliases only.
    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)

    namespace: NamespacePrefix
    start: Time = Field(validation_alias="from", serialization_alias="from")
    end: Time = Field(validation_alias="to", serialization_alias="to")
    limit: Limit = LIST_DEFAULT
    cursor: Cursor | None = None


class ForkNamespace(RequestBody):
    namespace: Namespace
    into: Namespace = Field(description="The target, which must be empty, including all below it.")
    as_of: Time | None = Field(default=None, description="As it was at this moment; now, if left out.")


class AcquireLease(RequestBody):
    namespace: Namespace
    key: Id | None = Field(default=None, description="If left out: a lease on the whole namespace.")
    ttl_ms: Annotated[int, Field(ge=LEASE_MINIMUM_MS, le=LEASE_MAXIMUM_MS)]
    wait_ms: Annotated[int, Field(ge=0, le=LEASE_WAIT_MAXIMUM_MS)] = Field(
        default=0, description="How long to wait in the queue if it is held."
    )


class RenewLease(RequestBody):
    namespace: Namespace
    key: Id | None = None
    token: Token
    ttl_ms: Annotated[int, Field(ge=LEASE_MINIMUM_MS, le=LEASE_MAXIMUM_MS)] | None = Field(
        default=None, description="The time from now; the time it was acquired for, if left out."
    )


class ReleaseLease(RequestBody):
    namespace: Namespace
    key: Id | None = None
    token: Token


class ReadAudit(RequestBody):
    """List the audit chain, newest first."""

    model_config = ConfigDict(json_schema_extra=refuses(combination(given=["key"], missing=["namespace"])))

    namespace: NamespacePrefix | None = Field(default=None, description="This one and all below it.")
    key: Id | None = Field(default=None, description="One key of exactly this namespace.")
    actor: AgentName | None = None
    operation: Id | None = None
    task_id: Id | None = Field(default=None, description="Only versions whose source names this task.")
    since: Time | None = None
    until: Time | None = Field(default=None, description="Before this moment.")
    limit: Limit = LIST_DEFAULT
    cursor: Cursor | None = None


class VerifyAudit(RequestBody):
    cursor: Cursor | None = Field(default=None, description="Continue a long verification.")


class EraseMemories(RequestBody):
    namespace: Namespace
    key: Id | None = Field(default=None, description="If left out: everything in and below the namespace.")


class ReadErasure(RequestBody):
    receipt: Id


class ConfirmErasure(RequestBody):
    receipt: Id
    worker: Id = Field(description="The worker whose copies are gone.")
    removed: Annotated[int, Field(ge=0, le=2**53)]


class ExportMemories(RequestBody):
    prefix: NamespacePrefix
    as_of: Time | None = Field(default=None, description="Now, if left out; following pages use the same moment.")
    limit: Limit = LIST_DEFAULT
    cursor: Cursor | None = None


class ImportedMemory(RequestBody):
    """A line of an export. The import keeps its history fields as `copied_from`."""

    namespace: Namespace
    key: Id
    value: MemoryValue
    memory_type: MemoryType = "semantic"
    metadata: Metadata = Field(default_factory=dict)
    importance: Importance | None = None
    valid_from: Time | None = None
    valid_to: Time | None = None
    expires_at: Time | None = None
    source: Source | None = None
    index: IndexedAs | None = None
    copied_from: Copied | None = None


class ImportMemories(RequestBody):
    items: list[ImportedMemory] = Field(min_length=1, max_length=BATCH_ITEMS)
    existing: Literal["update", "keep"] = Field(
        default="update", description="How to treat an existing memory with other content."
    )
