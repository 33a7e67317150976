"""The reply bodies of the windows service."""

from typing import Literal

from pydantic import Field

from hivemem_contracts.identifiers import Time
from hivemem_contracts.model import ReplyBody
from hivemem_contracts.windows.models import FlushStrategy, ResourceVersion, Size, StoredMessage, Summary

FlushQueued = Literal["none", "queued"]


class ResourceWritten(ResourceVersion):
    """A resource after a write."""

    duplicate: bool = Field(default=False, description="True if this write was done before: the first result again.")


class ResourceDeleted(ReplyBody):
    id: str
    version: int
    duplicate: bool = Field(default=False, description="True if this was done before: the first result again.")


class ResourcePage(ReplyBody):
    items: list[ResourceVersion] = Field(description="By id.")
    cursor: str | None


class AppendedTo(ReplyBody):
    """A window after an append."""

    key: str
    total_tokens: int = Field(description="The tokens of the window, with its summary.")
    messages: int = Field(description="Number of messages in the window.")
    evicted: list[int] = Field(description="The sequences of messages that had to leave.")
    flush: FlushQueued
    version: int = Field(description="Counts the changes of the window; 0 if it does not exist.")
    duplicate: bool = Field(default=False, description="True if this write was done before: the first result again.")


class MessageAppended(AppendedTo):
    message_id: str
    sequence: int | None = Field(default=None, description="null: the message was not stored.")
    tokens: int


class AppendedMessage(ReplyBody):
    message_id: str
    sequence: int | None = Field(default=None, description="null: the message was not stored.")
    tokens: int


class MessagesAppended(AppendedTo):
    results: list[AppendedMessage]


class WindowRead(ReplyBody):
    key: str
    messages: list[StoredMessage] = Field(description="The oldest first.")
    tokens: int = Field(description="The tokens of these messages and the summary.")
    summary: Summary | None = None
    version: int
    cut: Literal["limit", "tokens", "bytes"] | None = Field(
        default=None, description="Why messages were left out: `limit`, `max_tokens`, or the size of one answer."
    )


class MessageDeleted(ReplyBody):
    key: str
    message_id: str
    sequences: list[int] = Field(description="The messages deleted: a tool call goes with its results.")
    total_tokens: int
    messages: int
    version: int
    duplicate: bool = Field(default=False, description="True if this was done before: the first result again.")


class WindowCleared(ReplyBody):
    key: str
    deleted: int = Field(description="Number of messages deleted from the window.")
    version: int
    duplicate: bool = Field(default=False, description="True if this was done before: the first result again.")


class OriginalPage(ReplyBody):
    items: list[StoredMessage] = Field(description="By sequence.")
    cursor: str | None


class WindowFlushed(ReplyBody):
    key: str
    flush_id: str
    strategy: FlushStrategy
    before: Size
    after: Size
    summarized: int = Field(description="Number of messages condensed into the summary.")
    evicted: int = Field(description="Number of messages that left the window.")
    fallback: str | None = Field(default=None, description="Why the rule made the summary instead of the model.")
    duplicate: bool = Field(default=False, description="True if this was done before: the first result again.")


class WindowLimits(ReplyBody):
    max_tokens: int | None = None
    max_messages: int | None = None
    shares: dict[str, int] | None = Field(default=None, description="The tokens of each share.")


class FlushHealth(ReplyBody):
    state: Literal["idle", "queued", "running"]
    last_at: Time | None = None
    failures: int = Field(description="Number of summaries in a row that the model did not make.")
    breaker: Literal["closed", "open", "half_open", "none"] = Field(
        description="The circuit breaker of the model in the worker that answers; `none` without a model."
    )


class WindowHealth(ReplyBody):
    key: str
    healthy: bool
    messages: int
    tokens: int
    limits: WindowLimits
    flush: FlushHealth
    age_seconds: float


class LockWaits(ReplyBody):
    count: int
    total_ms: int


class Latency(ReplyBody):
    count: int
    total_ms: int
    longest_ms: int


class WindowStats(ReplyBody):
    key: str
    messages: int
    tokens: int
    shares: dict[str, int] = Field(description="The tokens of each share.")
    limits: WindowLimits
    appended: int
    evicted: int
    flushes: dict[str, dict[str, int]] = Field(
        description="Number of flushes by strategy and outcome: `done`, `fallback` or `empty`."
    )
    flushed: int = Field(description="Number of messages that flushes took.")
    lock_waits: LockWaits
    summaries: Latency = Field(description="How long summaries took.")
    breaker: Literal["closed", "open", "half_open", "none"]


class ListedWindow(ReplyBody):
    resource: str
    key: str
    status: Literal["open", "archived"]
    messages: int
    tokens: int
    session_id: str | None = None
    created_at: Time
    updated_at: Time


class WindowPage(ReplyBody):
    items: list[ListedWindow] = Field(description="By key.")
    cursor: str | None
