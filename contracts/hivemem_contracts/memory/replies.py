"""The reply bodies of the memory service."""

from typing import Any, Literal

from pydantic import Field

from hivemem_contracts.identifiers import Time
from hivemem_contracts.memory.models import AuditEntry, Difference, Memory, MemoryKey, MemoryVersion
from hivemem_contracts.memory.requests import ImportedMemory
from hivemem_contracts.model import ReplyBody


class MemoryWritten(ReplyBody):
    namespace: str
    key: str
    version: int
    created: bool = Field(description="True if the memory did not exist before.")
    duplicate: bool = Field(description="True if this write was done before: the first result again.")


class MemoryOutcome(ReplyBody):
    """One of a batch: the fields of a write's answer, or `error`."""

    namespace: str | None = None
    key: str | None = None
    version: int | None = None
    created: bool | None = None
    duplicate: bool | None = None
    error: dict[str, Any] | None = None


class MemoriesWritten(ReplyBody):
    results: list[MemoryOutcome] = Field(description="In the order of the request.")


class Memories(ReplyBody):
    items: list[Memory] = Field(description="The memories that were found, in the order of the request.")
    missing: list[MemoryKey] = Field(description="The keys that do not exist, or are deleted.")
    left: list[MemoryKey] = Field(description="The keys that did not fit into the answer: ask for them again.")


class MemoryPage(ReplyBody):
    items: list[Memory]
    cursor: str | None


class VersionPage(ReplyBody):
    items: list[MemoryVersion] = Field(description="Newest first.")
    cursor: str | None


class MemoryCount(ReplyBody):
    count: int


class NamespacePage(ReplyBody):
    items: list[str] = Field(description="Each once, in the order of `list`.")
    cursor: str | None


class NamespaceSnapshot(ReplyBody):
    namespace: str
    as_of: Time
    items: list[Memory] = Field(description="By namespace and key.")
    cursor: str | None


class MemoryChange(ReplyBody):
    """The change of one memory between two moments."""

    namespace: str
    key: str
    change: Literal["added", "removed", "changed"]
    before: Memory | None = None
    after: Memory | None = None
    diff: list[Difference] = Field(description="The differences of the values, if it exists at both moments.")
    values_omitted: bool = Field(
        default=False, description="True if they would be too large: read the two versions by request."
    )


class NamespaceDiff(ReplyBody):
    items: list[MemoryChange] = Field(description="By namespace and key.")
    cursor: str | None


class NamespaceForked(ReplyBody):
    namespace: str
    into: str
    as_of: Time
    entries: int = Field(description="Number of copied memories.")
    duplicate: bool


class LeaseGranted(ReplyBody):
    token: int = Field(description="Grows with every holder: pass it with the writes that the lease protects.")
    expires_at: Time


class LeaseReleased(ReplyBody):
    released: bool = Field(description="False if it had ended before.")


class AuditPage(ReplyBody):
    items: list[AuditEntry] = Field(description="Newest first.")
    cursor: str | None
    behind: int = Field(description="Number of changes not yet in the chain; 0: it is up to date.")


class AuditVerified(ReplyBody):
    ok: bool
    checked: int = Field(description="Number of verified links.")
    memories: int = Field(default=0, description="Number of memories looked up in the chain, after its end.")
    broken_at: int | None = Field(
        default=None, description="The position of the first invalid link; null if a link is missing."
    )
    problem: str | None = Field(
        default=None, description="The problem there, or the memory and version without a link."
    )
    hash: str | None = Field(default=None, description="The hash of the last verified link: store it elsewhere.")
    cursor: str | None = Field(default=None, description="The place to continue from, if there is more to verify.")


class ExportPage(ReplyBody):
    as_of: Time
    items: list[ImportedMemory] = Field(description="Lines that `import` takes.")
    cursor: str | None


class ImportOutcome(ReplyBody):
    namespace: str
    key: str
    version: int | None = None
    outcome: Literal["created", "updated", "unchanged", "kept", "refused"]
    error: dict[str, Any] | None = None


class MemoriesImported(ReplyBody):
    results: list[ImportOutcome] = Field(description="In the order of the request.")
