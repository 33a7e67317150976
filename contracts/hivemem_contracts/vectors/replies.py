"""The reply bodies of the vectors service."""

from typing import Literal

from pydantic import Field

from hivemem_contracts.model import ReplyBody
from hivemem_contracts.vectors.models import Degraded, IndexStatus, PartHealth, Recalled, VectorMatch


class VectorStored(ReplyBody):
    id: str
    collection: str
    version: int = Field(description="Counts the writes and deletions of the id.")
    duplicate: bool = Field(description="True if this was stored before: the first result again.")


class VectorMatches(ReplyBody):
    items: list[VectorMatch] = Field(description="The nearest first.")


class VectorDeleted(ReplyBody):
    id: str
    collection: str
    deleted: bool = Field(description="False if it did not exist.")
    duplicate: bool = Field(default=False, description="True if this was deleted before: the first result again.")


class RecallAnswer(ReplyBody):
    items: list[Recalled] = Field(description="The best first.")
    cursor: str | None = Field(default=None, description="The next page; null: nothing more is found.")
    degraded: Degraded | None = Field(default=None, description="null: the answer is complete.")
    cut: Literal["tokens", "bytes"] | None = Field(
        default=None, description="Why results were left out: `max_tokens`, or the size of one answer."
    )


class StatusPage(ReplyBody):
    items: list[IndexStatus]
    cursor: str | None


class IndexOverview(ReplyBody):
    """The tenant's memories in the index, and the health of the parts that the index needs."""

    synced: int
    pending: int
    stale: int
    failed: int
    waiting: int = Field(description="Changes of all tenants on the feed that are not indexed yet.")
    model: str
    dimension: int
    embedder: PartHealth
    store: PartHealth


class SweepPage(ReplyBody):
    """The differences that one part of a sweep found, and repaired unless it was a dry run."""

    checked: int = Field(description="Number of memories, events and vectors compared.")
    missing: int = Field(description="Number of them missing from the index, or indexed at another version.")
    left_over: int = Field(description="Number of leftovers: points of the index, and memories that are gone.")
    cursor: str | None = Field(description="The start of the next part; null: the sweep is complete.")
