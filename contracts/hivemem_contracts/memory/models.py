"""What a memory is made of, as it travels."""

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from hivemem_contracts.fields import Metadata
from hivemem_contracts.identifiers import Id, Namespace, Time
from hivemem_contracts.limits import MEMORY_VALUE_BYTES
from hivemem_contracts.model import ReplyBody, RequestBody
from hivemem_contracts.sizes import MaxBytes

MemoryType = Literal["semantic", "episodic", "procedural"]
MemoryValue = Annotated[JsonValue, MaxBytes(MEMORY_VALUE_BYTES)]
"""Any JSON, of a limited size."""

Importance = Annotated[float, Field(ge=0, le=1)]
Token = Annotated[int, Field(ge=1, le=2**53)]


class Source(RequestBody):
    """Where a memory comes from."""

    session_id: Id
    event_id: Id | None = None


class MemoryKey(RequestBody):
    """Names one memory."""

    namespace: Namespace
    key: Id


class LeaseClaim(RequestBody):
    """The lease that a write relies on: it is refused where the token is not the one that holds now."""

    namespace: Namespace
    key: Id | None = Field(default=None, description="Left out: the lease on the whole namespace.")
    token: Token


class Copied(RequestBody):
    """What a memory was made from, by a fork or an import."""

    namespace: Namespace
    key: Id
    version: int
    created_by: Id
    created_at: Time
    updated_by: Id
    updated_at: Time


class Memory(ReplyBody):
    """A memory at one of its versions."""

    namespace: str
    key: str
    value: JsonValue = Field(default=None, description="null where it is deleted.")
    memory_type: MemoryType
    version: int = Field(description="Counts its changes, a deletion included.")
    deleted: bool
    metadata: Metadata
    importance: float | None = None
    valid_from: Time | None = None
    valid_to: Time | None = None
    expires_at: Time | None = Field(default=None, description="It is deleted at this moment.")
    source: Source | None = None
    copied_from: Copied | None = None
    digest: str = Field(description="SHA-256 of all that the version says, in hexadecimal.")
    created_by: str
    updated_by: str
    created_at: Time
    updated_at: Time


VersionOperation = Literal["put", "patch", "delete", "restore", "fork", "import", "expire"]


class Difference(ReplyBody):
    """One difference between two JSON values."""

    path: str = Field(description="A JSON pointer; empty: the whole value.")
    change: Literal["added", "removed", "changed"]
    before: JsonValue = None
    after: JsonValue = None


class MemoryVersion(Memory):
    """One version in the history of a memory."""

    operation: VersionOperation = Field(description="What made it.")
    request_id: str | None = Field(default=None, description="The idempotency key of the write.")
    diff: list[Difference] | None = Field(default=None, description="Against the version before, where asked for.")
    diff_omitted: bool = Field(default=False, description="True where it would be too large: compare the two values.")


class LeaseHolder(ReplyBody):
    """Who holds a lease, and who would like to."""

    holder: str | None = Field(default=None, description="The agent that holds it; null: nobody.")
    token: int = Field(description="Of the holder, or of the last one; a later holder has a higher one.")
    expires_at: Time | None = None
    waiting: int = Field(description="How many wait for it, in the order of their coming.")


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
    outcome: Literal["done", "refused"]
    error: str | None = Field(default=None, description="The name of the error, where it was refused.")
    digest: str | None = Field(default=None, description="That of the version that was written.")
    hash: str = Field(description="SHA-256 over the link before and all of this one.")


class Confirmation(ReplyBody):
    """That a worker has removed what it kept of something erased."""

    worker: str
    removed: int = Field(description="How many things it removed.")
    at: Time


class ErasureReceipt(ReplyBody):
    """What an erasure did, and which workers have confirmed it."""

    receipt: str
    namespace: str
    key: str | None = None
    status: Literal["running", "done"]
    entries: int = Field(description="How many memories were removed so far.")
    versions: int = Field(description="How many versions of them.")
    requested_by: str
    requested_at: Time
    finished_at: Time | None = None
    confirmed: list[Confirmation]
