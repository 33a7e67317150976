"""The questions and results of the vectors service."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, JsonValue, StringConstraints, model_validator

from hivemem_contracts.fields import Metadata
from hivemem_contracts.identifiers import AgentName, Id, Time
from hivemem_contracts.json_limits import INTEGER_MAXIMUM, INTEGER_MINIMUM
from hivemem_contracts.limits import EMBEDDING_DIMENSIONS, RECALL_FILTERS
from hivemem_contracts.memory.models import Importance, MemoryType, Where
from hivemem_contracts.model import ReplyBody, RequestBody
from hivemem_contracts.named_types import NamedType

Embedding = Annotated[list[float], Field(min_length=1, max_length=EMBEDDING_DIMENSIONS)]
"""An embedding: finite numbers, one for each dimension of the collection."""

Collection = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,47}$"),
    NamedType("Collection", "The name of a collection: 1 to 48 of `a-z0-9_-`, the first one a letter or a digit."),
]
ItemKind = Literal["memory", "event"]
IndexState = Literal["pending", "synced", "failed", "stale"]
Share = Annotated[float, Field(ge=0, le=1)]
Matched = Annotated[
    dict[Id, str | Annotated[int, Field(ge=INTEGER_MINIMUM, le=INTEGER_MAXIMUM)] | bool],
    Field(max_length=RECALL_FILTERS),
]
"""Metadata fields with their required values; all of them must match."""


class Weights(RequestBody):
    """The weights of the score. Only the proportions of the first three matter, and one of them is more than 0."""

    model_config = ConfigDict(
        json_schema_extra={
            "not": {
                "properties": {name: {"const": 0} for name in ("relevance", "recency", "importance")},
                "required": ["relevance"],
            }
        }
    )

    relevance: Share = 1.0
    recency: Share = 0.0
    importance: Share = 0.0
    dense: Share = Field(
        default=0.5, description="The share of meaning in the relevance; the rest is the share of words."
    )
    half_life_days: Annotated[float, Field(gt=0, le=36_500)] = Field(
        default=30.0, description="The time after which recency has halved."
    )

    @model_validator(mode="after")
    def _counts_something(self) -> "Weights":
        if self.relevance + self.recency + self.importance == 0:
            raise ValueError("one of relevance, recency and importance has to be more than 0")
        return self


class RecallFilter(RequestBody):
    """Conditions that an item must meet. A field that is left out sets no condition."""

    metadata: Matched | None = None
    where: Where | None = Field(
        default=None,
        description="Only memories whose values have these fields with these values; `a.b` is a field of an object.",
    )
    created_by: AgentName | None = None
    updated_after: Time | None = Field(default=None, description="Written later than this.")
    updated_before: Time | None = Field(default=None, description="Written before this moment.")
    valid_at: Time | None = Field(default=None, description="Only memories valid at this moment.")
    min_importance: Importance | None = Field(default=None, description="Excludes items without an importance.")


class Scores(ReplyBody):
    """The parts of a score, each from 0 to 1 but for `hints`."""

    dense: float = Field(description="Similarity of meaning: the cosine, lowered for texts of a few words.")
    keyword: float = Field(description="Share of the worth of the question's words. Rare words are worth more.")
    recency: float
    importance: float
    hints: float = Field(
        default=1.0,
        description="A factor of the relevance: above 1 for a text that names a time if the question asks for one, for "
        "an event whose author or whose period the question names, and for a text with a second chunk that is near; "
        "below 1 for a text that is a question itself.",
    )
    rerank: float | None = Field(
        default=None, description="The reranker's score, which is the relevance then; null: not reranked."
    )


class Turn(ReplyBody):
    """An event near a result, in the same session."""

    key: str = Field(description="The event's id.")
    sequence: int
    author: str | None
    occurred_at: Time = Field(description="When it occurred, or else when it was committed.")
    text: str = Field(description="Like the text of an event that is found, at most 2,000 characters; may be empty.")


class Context(ReplyBody):
    """The neighbours of an event, in the order of their sequences."""

    before: list[Turn]
    after: list[Turn]


class Recalled(ReplyBody):
    """A result: a memory, or an event of a session with indexed events."""

    kind: ItemKind = "memory"
    namespace: str = Field(description="For an event: `session:` and its session id.")
    key: str = Field(description="For an event: its id.")
    version: int = Field(
        description="The current version, which may be later than the indexed one; an event's sequence."
    )
    value: JsonValue = None
    memory_type: MemoryType | None = Field(default=None, description="null for an event.")
    metadata: Metadata = Field(default_factory=dict)
    created_at: Time | None = Field(
        default=None,
        description="When the memory was created, or the event committed; null for a memory while the `memory` service "
        "does not answer.",
    )
    updated_at: Time
    text: str | None = Field(
        default=None, description="The chunk of its text that matched; null if the text has changed since."
    )
    session_id: str | None = Field(default=None, description="Of an event.")
    author: str | None = Field(default=None, description="Of an event.")
    occurred_at: Time | None = Field(default=None, description="Of an event: when it occurred, or was committed.")
    context: Context | None = Field(default=None, description="Of an event, if it was asked for and could be read.")
    score: float
    scores: Scores
    matched: dict[str, float] | None = Field(
        default=None,
        description="With `explain`: the words of the question in `text`, and the part of `keyword` of each.",
    )


DegradedReason = Literal["embedder", "index", "behind", "memory", "sessions", "words", "reranker"]


class Degraded(ReplyBody):
    """The reasons why an answer is incomplete: the `embedder` is down, so it was found by words only; the `index` is
    down, so the mirror was searched; the index is `behind` the writes; the `memory` service does not answer, so items
    are as they were indexed; the `sessions` service does not answer, so events come without their context; texts that
    an earlier release indexed do not have the `words` of this one yet; the `reranker` is down, so items are in the
    order of the search."""

    reasons: list[DegradedReason]
    detail: str


class VectorMatch(ReplyBody):
    id: str
    score: float = Field(description="The cosine.")
    metadata: Metadata


class IndexStatus(ReplyBody):
    """The index status of one memory."""

    namespace: str
    key: str
    version: int = Field(description="The newest version known to the index.")
    indexed_version: int | None = Field(default=None, description="The indexed version; null: none.")
    state: IndexState = Field(description="`stale`: an older version is indexed while a newer one waits.")
    error: str | None = None
    attempts: int
    updated_at: Time


class PartHealth(ReplyBody):
    """Whether a part that the index needs is available."""

    ready: bool
    detail: str | None = None
