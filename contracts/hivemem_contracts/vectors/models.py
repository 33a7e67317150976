"""What the vectors service is asked with, and what it finds."""

from typing import Annotated, Literal

from pydantic import Field, JsonValue, StringConstraints, model_validator

from hivemem_contracts.fields import Metadata
from hivemem_contracts.identifiers import Id, Time
from hivemem_contracts.limits import EMBEDDING_DIMENSIONS, RECALL_FILTERS
from hivemem_contracts.memory.models import Importance, MemoryType
from hivemem_contracts.model import ReplyBody, RequestBody

Embedding = Annotated[list[float], Field(min_length=1, max_length=EMBEDDING_DIMENSIONS)]
"""Finite numbers, as many as the collection's dimension."""

Collection = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,47}$")]
IndexState = Literal["pending", "synced", "failed", "stale"]
Share = Annotated[float, Field(ge=0, le=1)]
Matched = Annotated[dict[Id, str | int | bool], Field(max_length=RECALL_FILTERS)]
"""Fields of the metadata and the values that they have to have, all of them."""


class Weights(RequestBody):
    """What counts how much in the score. Of the first three only the proportions matter."""

    relevance: Share = 1.0
    recency: Share = 0.0
    importance: Share = 0.0
    dense: Share = Field(
        default=0.8, description="The share of the meaning in the relevance; the rest is that of the words."
    )
    half_life_days: Annotated[float, Field(gt=0, le=36_500)] = Field(
        default=30.0, description="After so long, recency has halved."
    )

    @model_validator(mode="after")
    def _counts_something(self) -> "Weights":
        if self.relevance + self.recency + self.importance == 0:
            raise ValueError("one of relevance, recency and importance has to be more than 0")
        return self


class RecallFilter(RequestBody):
    """What an item has to be, besides near. Each field that is left out lets everything pass."""

    metadata: Matched | None = None
    created_by: Id | None = None
    updated_after: Time | None = Field(default=None, description="Written later than this.")
    updated_before: Time | None = Field(default=None, description="Written before this moment.")
    valid_at: Time | None = Field(default=None, description="What holds at this moment.")
    min_importance: Importance | None = Field(default=None, description="What has none is left out.")


class Scores(ReplyBody):
    """Where a score came from, each part from 0 to 1."""

    dense: float = Field(description="How near in meaning: the cosine.")
    keyword: float = Field(description="How many of the words, the rare ones first.")
    recency: float
    importance: float


class Recalled(ReplyBody):
    """What was found: a memory, or an event of a session that asks for its events to be indexed."""

    kind: Literal["memory", "event"] = "memory"
    namespace: str = Field(description="Of an event: `session:` and its session.")
    key: str = Field(description="Of an event: its id.")
    version: int = Field(description="The newest one, which is the indexed one or a later one; an event's sequence.")
    value: JsonValue = None
    memory_type: MemoryType | None = Field(default=None, description="null for an event.")
    metadata: Metadata = Field(default_factory=dict)
    updated_at: Time
    text: str | None = Field(
        default=None, description="The piece of its text that was found; null where that is no longer what it says."
    )
    score: float
    scores: Scores


DegradedReason = Literal["embedder", "index", "behind", "memory"]


class Degraded(ReplyBody):
    """That an answer is not all that it could be, and why: the `embedder` or the `index` cannot be used, so the words
    or the mirror had to do; the index is `behind` what was written; the `memory` service does not answer, so items
    are as they were indexed."""

    reasons: list[DegradedReason]
    detail: str


class VectorMatch(ReplyBody):
    id: str
    score: float = Field(description="The cosine.")
    metadata: Metadata


class IndexStatus(ReplyBody):
    """How far the index is with one memory."""

    namespace: str
    key: str
    version: int = Field(description="The newest one that the index has heard of.")
    indexed_version: int | None = Field(default=None, description="The one that is found; null: none.")
    state: IndexState = Field(description="`stale`: an older version is still found while a newer one waits.")
    error: str | None = None
    attempts: int
    updated_at: Time


class PartHealth(ReplyBody):
    """Whether something that the index needs can be used."""

    ready: bool
    detail: str | None = None
