"""The changes that the memory service announces, each with the model of its value."""

from typing import Final

from pydantic import Field

from hivemem_contracts.changes import ChangeKind
from hivemem_contracts.memory.models import ErasureReceipt, LeaseHolder, Memory
from hivemem_contracts.model import ReplyBody


class MemoryErased(ReplyBody):
    """The receipt of the erasure that removed a memory, if an erasure was requested."""

    receipt: str | None = Field(
        default=None, description="A worker that keeps a copy confirms its removal to this receipt."
    )


ERASURES_FOLLOWED: Final = "erasures"
"""The reaction of a service that keeps copies of memories and confirms their removal. While its consumer of the feed
(`<service>-erasures`) exists, an erasure is not done without its confirmation."""

_MEMORY: Final = ("namespace", "key")


def _of_lease(operation: str, summary: str) -> ChangeKind:
    return ChangeKind("lease", operation, LeaseHolder, summary, _MEMORY, keyed=True, key_optional=True)


CHANGES: Final[tuple[ChangeKind, ...]] = (
    ChangeKind("memory", "put", Memory, "A memory was created, replaced or patched.", _MEMORY, keyed=True),
    ChangeKind("memory", "deleted", Memory, "A memory was deleted, or expired.", _MEMORY, keyed=True),
    ChangeKind("memory", "restored", Memory, "An older version of a memory was restored.", _MEMORY, keyed=True),
    ChangeKind("memory", "erased", MemoryErased, "A memory and all its versions were removed.", _MEMORY, keyed=True),
    ChangeKind(
        "erasure",
        "removed",
        ErasureReceipt,
        "All memories of an erasure are removed; now others confirm.",
        ("receipt",),
    ),
    ChangeKind(
        "erasure", "done", ErasureReceipt, "An erasure is done: every worker with copies confirmed.", ("receipt",)
    ),
    _of_lease("acquired", "A lease was granted."),
    _of_lease("renewed", "A lease was prolonged by its holder."),
    _of_lease("released", "A lease was released, and no request waits for it."),
    _of_lease("expired", "A lease with a queue expired, and no request waits any more."),
    _of_lease("awaited", "A request joined or left the queue of a lease."),
)
