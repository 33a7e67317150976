"""The shapes of resources, windows and messages on the wire."""

from typing import Annotated, Final, Literal

from pydantic import Field, JsonValue, StringConstraints

from hivemem_contracts.fields import Metadata
from hivemem_contracts.identifiers import Id, Time
from hivemem_contracts.json_values import FromPython, Json
from hivemem_contracts.limits import (
    AGENT_ID_CHARACTERS,
    ID_CHARACTERS,
    WINDOW_MESSAGE_BYTES,
    WINDOW_MESSAGES,
    WINDOW_PATTERN_CHARACTERS,
    WINDOW_PATTERNS,
    WINDOW_TEMPLATE_CHARACTERS,
    WINDOW_TOOL_CALLS,
    WINDOW_WRITERS,
)
from hivemem_contracts.memory.models import Importance
from hivemem_contracts.model import ReplyBody, RequestBody
from hivemem_contracts.named_types import NamedType
from hivemem_contracts.patterns import ONE_SEGMENT
from hivemem_contracts.sizes import MaxBytes

LEASE_NAMESPACE: Final = "app:windows"
"""The parent of the leases on windows: that on a window has its key in the namespace `app:windows:<resource>`."""

ResourceId = Annotated[
    str,
    StringConstraints(min_length=1, max_length=AGENT_ID_CHARACTERS, pattern=ONE_SEGMENT),
    NamedType(
        "ResourceId",
        f"The id of a window resource: 1 to {AGENT_ID_CHARACTERS} characters, no `:`, no control characters, no space "
        "at either end.",
    ),
]
KeyTemplate = Annotated[
    str,
    StringConstraints(min_length=1, max_length=WINDOW_TEMPLATE_CHARACTERS),
    NamedType(
        "KeyTemplate",
        "A window's key with variables, such as `user:{{ user_id }}:{{ agent.id | lower }}`. The filters are `lower`, "
        "`slug` and `default('text')`. In the value of a variable, `%` becomes `%25` and `:` becomes `%3A`.",
    ),
]
Mode = Literal["read-write", "read-only"]
AgentPattern = Annotated[str, StringConstraints(min_length=1, max_length=ID_CHARACTERS)]
WindowType = Literal["token", "message", "buffer"]
Eviction = Literal["fifo", "lru", "lfu", "priority"]
FlushStrategy = Literal[
    "fifo",
    "lru",
    "lfu",
    "priority",
    "token_threshold",
    "message_count",
    "time",
    "hybrid_summary",
    "model_summary",
]
Share = Literal["system", "long_term", "short_term"]
SessionEnd = Literal["keep", "archive", "delete"]
Fraction = Annotated[float, Field(ge=0, le=1)]
Role = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=ONE_SEGMENT)]
PatternText = Annotated[str, StringConstraints(min_length=1, max_length=WINDOW_PATTERN_CHARACTERS)]
Seconds = Annotated[int, Field(ge=1, le=315_360_000)]
MessageCount = Annotated[int, Field(ge=1, le=WINDOW_MESSAGES)]


class Allocation(RequestBody):
    """The parts of `max_tokens` that each share may use; they add up to 1. `short_term` also gets what the others do
    not use, until they need it."""

    system: Fraction
    long_term: Fraction
    short_term: Fraction


class Flushing(RequestBody):
    """When a window is flushed in the background, and what becomes of the messages."""

    strategy: FlushStrategy
    threshold: Annotated[float, Field(gt=0, le=1)] | None = Field(
        default=None,
        description="The part of the limit at which a flush is queued; 0.8 if no trigger is given.",
    )
    every_messages: MessageCount | None = Field(default=None, description="Flush after so many new messages.")
    every_seconds: Seconds | None = Field(default=None, description="Flush that long after the last flush.")
    keep_first: Annotated[int, Field(ge=0, le=WINDOW_MESSAGES)] = Field(
        default=0, description="The oldest messages that a flush leaves alone."
    )
    keep_last: Annotated[int, Field(ge=0, le=WINDOW_MESSAGES)] | None = Field(
        default=None, description="The newest messages that a flush leaves alone; 4 for summaries, else 0."
    )
    summary: Literal["none", "rule", "model"] | None = Field(
        default=None,
        description="How flushed messages are condensed: `rule` for `hybrid_summary`, `model` for `model_summary` and "
        "`none` for the others, unless given.",
    )
    summary_tokens: Annotated[int, Field(ge=16, le=32_768)] | None = Field(
        default=None, description="The limit of the summary; an eighth of `max_tokens`, at most 1,000, unless given."
    )


class RedactionRule(RequestBody):
    """A pattern whose matches are replaced by its name."""

    name: Id
    pattern: PatternText


class DoNotPersist(RequestBody):
    """Messages that are dropped before anything is stored or announced."""

    roles: Annotated[list[Role], Field(max_length=WINDOW_PATTERNS)] = Field(default_factory=list[str])
    patterns: Annotated[list[PatternText], Field(max_length=WINDOW_PATTERNS)] = Field(
        default_factory=list[str], description="Regular expressions (RE2), searched in all texts of a message."
    )


class Privacy(RequestBody):
    """Rules about messages, applied before anything is stored or announced."""

    redact: Annotated[list[Id | RedactionRule], Field(max_length=WINDOW_PATTERNS)] = Field(
        default_factory=list[Id | RedactionRule], description="Names of built-in rules, or rules of your own."
    )
    do_not_persist: DoNotPersist | None = None


class WindowResource(RequestBody):
    """The declaration of windows: the limits and the rules of each window whose key follows the template."""

    id: ResourceId
    type: WindowType = Field(
        description="`token` needs `max_tokens`, `message` needs `max_messages`, `buffer` needs one of them. All given "
        "limits hold."
    )
    key: KeyTemplate
    max_tokens: Annotated[int, Field(ge=16, le=100_000_000)] | None = None
    max_messages: MessageCount | None = Field(
        default=None, description=f"{WINDOW_MESSAGES:,} if left out: no window holds more."
    )
    allocation: Allocation | None = Field(default=None, description="Needs `max_tokens`.")
    flushing: Flushing | None = None
    eviction: Eviction = "fifo"
    ttl_seconds: Seconds | None = Field(
        default=None, description="A window is deleted, with its originals, that long after its last use."
    )
    locking: bool = Field(
        default=False,
        description="Each write needs the lease on the window; one without a claim takes it for itself.",
    )
    writers: Annotated[list[AgentPattern], Field(min_length=1, max_length=WINDOW_WRITERS)] | None = Field(
        default=None, description="The agents that may write, by name or by a pattern such as `support-*`; others read."
    )
    privacy: Privacy | None = None
    token_provider: Id | None = Field(default=None, description="Whose tokenizer counts; an estimate if left out.")
    on_session_end: SessionEnd = Field(
        default="keep",
        description="What becomes of a window once its session has ended. A window belongs to a session if its context "
        "has a `session_id`.",
    )
    description: Annotated[str, StringConstraints(max_length=4_000)] | None = None


class ResourceVersion(ReplyBody):
    """A resource, as it is declared at a version."""

    resource: WindowResource
    version: int
    updated_by: str
    updated_at: Time


ToolCalls = Annotated[list[dict[str, Json]], FromPython(), Field(max_length=WINDOW_TOOL_CALLS)]


class WindowMessage(RequestBody):
    """A message as its writer sends it."""

    role: Role
    content: Annotated[Json, FromPython()] = Field(default=None, description="Text, or any JSON such as parts.")
    name: Id | None = None
    tool_calls: ToolCalls | None = Field(
        default=None, description="The `id` of each call ties the result to it: they leave the window together."
    )
    tool_call_id: Id | None = Field(default=None, description="The call that this message is the result of.")
    importance: Importance | None = Field(default=None, description="0.5 counts if left out.")
    share: Share | None = Field(
        default=None,
        description="`system` for the role `system`, else `short_term`. A result has the share of its call.",
    )
    pinned: bool = Field(default=False, description="Neither evicted nor flushed.")
    persist: bool = Field(default=True, description="False: counted and answered, but not stored or announced.")
    metadata: Metadata | None = None


NewMessage = Annotated[WindowMessage, MaxBytes(WINDOW_MESSAGE_BYTES)]


class StoredMessage(ReplyBody):
    """A message of a window, or one that has left it."""

    sequence: int = Field(description="Counts the messages of the window.")
    message_id: str
    role: str
    content: JsonValue = None
    name: str | None = None
    tool_calls: list[dict[str, JsonValue]] | None = None
    tool_call_id: str | None = None
    importance: Importance | None = None
    share: Share
    pinned: bool = False
    metadata: Metadata = Field(default_factory=dict)
    tokens: int
    by: str = Field(description="The sender of the request.")
    at: Time


class Summary(ReplyBody):
    """What flushed messages were condensed to. Its tokens count."""

    text: str
    tokens: int
    messages: int = Field(description="Number of messages condensed.")
    by: Literal["rule", "model"]


class Size(ReplyBody):
    messages: int
    tokens: int
