"""The reply bodies of the vectors service."""

from typing import Literal

from pydantic import Field

from hivemem_contracts.model import ReplyBody
from hivemem_contracts.vectors.models import Degraded, IndexStatus, PartHealth, Recalled, VectorMatch


class VectorStored(ReplyBody):
    id: str
    collection: str
    version: int = Field(description="Counts what was stored and deleted under the id.")
    duplicate: bool = Field(description="True where this was stored already: the first result again.")


class VectorMatches(ReplyBody):
    items: list[VectorMatch] = Field(description="The nearest first.")


class VectorDeleted(ReplyBody):
    id: str
    collection: str
    deleted: bool = Field(description="False where there was none.")


class RecallAnswer(ReplyBody):
    items: list[Recalled] = Field(description="The best first.")
    degraded: Degraded | None = Field(default=None, description="null: nothing is missing.")
    cut: Literal["tokens", "bytes"] | None = Field(
        default=None, description="Why there are less than there could be: `max_tokens`, or the size of one answer."
    )


class StatusPage(ReplyBody):
    items: list[IndexStatus]
    cursor: str | None


class IndexOverview(ReplyBody):
    """The tenant's memories in the index, and what the index stands on."""

    synced: int
    pending: int
    stale: int
    failed: int
    waiting: int = Field(description="Changes on the feed, of all tenants, that the index has not taken up yet.")
    model: str
    dimension: int
    embedder: PartHealth
    store: PartHealth


class SweepPage(ReplyBody):
    """What a part of a sweep found; repaired, unless it was a dry run."""

    checked: int = Field(description="Memories, events and vectors that were compared.")
    missing: int = Field(description="Those that were not found at their version, or not found at all.")
    left_over: int = Field(
        description="What was found and should not have been: points of the index, and memories that are gone."
    )
    cursor: str | None = Field(description="Where the next part begins; null: all was swept.")
