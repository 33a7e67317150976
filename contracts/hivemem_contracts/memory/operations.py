"""Each operation of the memory service, declared once."""

from typing import Final

from hivemem_contracts.errors import AlreadyExists, LeaseHeld, NotFound, RevisionConflict, TooLarge
from hivemem_contracts.memory import replies, requests
from hivemem_contracts.memory.models import ErasureReceipt, Memory
from hivemem_contracts.operations import Operation, ServiceContract

NAME: Final = "memory"

PUT = Operation(
    NAME,
    "put",
    requests.PutMemory,
    replies.MemoryWritten,
    summary="Create a memory or replace its value.",
    writes=True,
    route="namespace",
    errors=(RevisionConflict, LeaseHeld, TooLarge),
)
PATCH = Operation(
    NAME,
    "patch",
    requests.PatchMemory,
    replies.MemoryWritten,
    summary="Apply a JSON merge patch to a memory's value.",
    writes=True,
    route="namespace",
    errors=(NotFound, RevisionConflict, LeaseHeld, TooLarge),
)
PUT_BATCH = Operation(
    NAME,
    "put_batch",
    requests.PutMemories,
    replies.MemoriesWritten,
    summary="Put many memories, each with its own outcome.",
    writes=True,
)
GET = Operation(
    NAME,
    "get",
    requests.GetMemory,
    Memory,
    summary="Read a memory: now, at a version, or as of a moment.",
    errors=(NotFound,),
)
GET_MANY = Operation(
    NAME,
    "get_many",
    requests.GetMemories,
    replies.Memories,
    summary="Read many memories at once.",
)
DELETE = Operation(
    NAME,
    "delete",
    requests.DeleteMemory,
    replies.MemoryWritten,
    summary="Delete a memory; its history stays.",
    writes=True,
    route="namespace",
    errors=(NotFound, RevisionConflict, LeaseHeld),
)
DELETE_BATCH = Operation(
    NAME,
    "delete_batch",
    requests.DeleteMemories,
    replies.MemoriesWritten,
    summary="Delete many memories, each with its own outcome.",
    writes=True,
)
RESTORE = Operation(
    NAME,
    "restore",
    requests.RestoreMemory,
    replies.MemoryWritten,
    summary="Make an older version of a memory the newest one again.",
    writes=True,
    route="namespace",
    errors=(NotFound, RevisionConflict, LeaseHeld),
)
HISTORY = Operation(
    NAME,
    "history",
    requests.ReadHistory,
    replies.VersionPage,
    summary="Page through a memory's versions, newest first.",
    errors=(NotFound,),
)
LIST = Operation(
    NAME,
    "list",
    requests.ListMemories,
    replies.MemoryPage,
    summary="List memories below a prefix, filtered by type, creator or time.",
)
COUNT = Operation(
    NAME,
    "count",
    requests.CountMemories,
    replies.MemoryCount,
    summary="Count memories below a prefix.",
)
NAMESPACES = Operation(
    NAME,
    "namespaces",
    requests.ListNamespaces,
    replies.NamespacePage,
    summary="List the namespaces that hold memories.",
)
SNAPSHOT = Operation(
    NAME,
    "snapshot",
    requests.SnapshotNamespace,
    replies.NamespaceSnapshot,
    summary="Read a namespace and all below it as of one moment.",
)
DIFF = Operation(
    NAME,
    "diff",
    requests.DiffNamespace,
    replies.NamespaceDiff,
    summary="List the changes in and below a namespace between two moments.",
)
FORK = Operation(
    NAME,
    "fork",
    requests.ForkNamespace,
    replies.NamespaceForked,
    summary="Copy a namespace and all below it, as of a moment, into another.",
    writes=True,
    route="into",
    errors=(AlreadyExists,),
)
LEASE = Operation(
    NAME,
    "lease",
    requests.AcquireLease,
    replies.LeaseGranted,
    summary="Acquire the lease on a namespace or a key, waiting in its queue if necessary.",
    writes=True,
    durable=False,
    errors=(LeaseHeld,),
)
RENEW = Operation(
    NAME,
    "renew",
    requests.RenewLease,
    replies.LeaseGranted,
    summary="Extend a lease that is still held.",
    writes=True,
    durable=False,
    errors=(LeaseHeld, RevisionConflict),
)
RELEASE = Operation(
    NAME,
    "release",
    requests.ReleaseLease,
    replies.LeaseReleased,
    summary="Release a lease; the first request in its queue gets it.",
    writes=True,
    durable=False,
    errors=(LeaseHeld,),
)
AUDIT = Operation(
    NAME,
    "audit",
    requests.ReadAudit,
    replies.AuditPage,
    summary="List who did what, when and through which request, newest first.",
)
AUDIT_VERIFY = Operation(
    NAME,
    "audit_verify",
    requests.VerifyAudit,
    replies.AuditVerified,
    summary="Verify the tenant's audit chain, and the memories against it.",
)
ERASE = Operation(
    NAME,
    "erase",
    requests.EraseMemories,
    ErasureReceipt,
    summary="Remove a memory, or a namespace and all below it, with every version, for good.",
    writes=True,
    route="namespace",
    errors=(NotFound,),
)
ERASURE = Operation(
    NAME,
    "erasure",
    requests.ReadErasure,
    ErasureReceipt,
    summary="Read an erasure's receipt.",
    errors=(NotFound,),
)
ERASE_CONFIRM = Operation(
    NAME,
    "erase_confirm",
    requests.ConfirmErasure,
    ErasureReceipt,
    summary="Confirm on a receipt that a worker has removed its copies.",
    writes=True,
    route="receipt",
    errors=(NotFound,),
)
EXPORT = Operation(
    NAME,
    "export",
    requests.ExportMemories,
    replies.ExportPage,
    summary="Read the memories below a prefix, as of one moment, as lines for `import`.",
)
IMPORT = Operation(
    NAME,
    "import",
    requests.ImportMemories,
    replies.MemoriesImported,
    summary="Import lines of an export; memories with the same content stay as they are.",
    writes=True,
)

MEMORY: Final = ServiceContract(
    NAME,
    "Memories: versioned values in namespaces, with history, leases and an audit.",
    (
        PUT,
        PATCH,
        PUT_BATCH,
        GET,
        GET_MANY,
        DELETE,
        DELETE_BATCH,
        RESTORE,
        HISTORY,
        LIST,
        COUNT,
        NAMESPACES,
        SNAPSHOT,
        DIFF,
        FORK,
        LEASE,
        RENEW,
        RELEASE,
        AUDIT,
        AUDIT_VERIFY,
        ERASE,
        ERASURE,
        ERASE_CONFIRM,
        EXPORT,
        IMPORT,
    ),
)
