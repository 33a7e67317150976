"""The changes that the windows service announces, each with the model of its value."""

from typing import Final, Literal

from pydantic import Field

from hivemem_contracts.changes import ChangeKind
from hivemem_contracts.model import ReplyBody
from hivemem_contracts.windows.models import FlushStrategy, Share, Size, WindowResource


class ResourceDeclared(ReplyBody):
    resource: WindowResource


class AnnouncedMessage(ReplyBody):
    """A message without its content: read it from the window."""

    message_id: str
    sequence: int
    role: str
    share: Share
    tokens: int


class WindowAppended(ReplyBody):
    appended: list[AnnouncedMessage]
    replaced: bool = Field(default=False, description="True if they replaced all earlier messages.")
    total_tokens: int
    messages: int
    evicted: list[int]
    flush: Literal["none", "queued"]


class WindowEvicted(ReplyBody):
    sequences: list[int]
    total_tokens: int
    messages: int


class WindowFlushedValue(ReplyBody):
    flush_id: str
    strategy: FlushStrategy
    before: Size
    after: Size
    summarized: int
    evicted: int
    fallback: str | None = None


class WindowClearedValue(ReplyBody):
    reason: Literal["request", "expired", "session"]
    messages: int = Field(description="Number of messages deleted from the window.")


class WindowMessageDeleted(ReplyBody):
    message_id: str
    sequences: list[int]
    total_tokens: int
    messages: int


_RESOURCE: Final = ("resource",)
_WINDOW: Final = ("resource", "key")

CHANGES: Final = (
    ChangeKind("resource", "declared", ResourceDeclared, "A window resource was declared or changed.", _RESOURCE),
    ChangeKind("resource", "deleted", None, "A window resource was deleted.", _RESOURCE),
    ChangeKind("window", "appended", WindowAppended, "Messages were appended to a window.", _WINDOW, keyed=True),
    ChangeKind("window", "evicted", WindowEvicted, "Messages had to leave a window.", _WINDOW, keyed=True),
    ChangeKind("window", "flushed", WindowFlushedValue, "A flush of a window ended.", _WINDOW, keyed=True),
    ChangeKind("window", "cleared", WindowClearedValue, "All messages of a window were deleted.", _WINDOW, keyed=True),
    ChangeKind("window", "deleted", WindowMessageDeleted, "A message was deleted.", _WINDOW, keyed=True),
    ChangeKind("window", "archived", None, "A window became read-only.", _WINDOW, keyed=True),
    ChangeKind("window", "erased", None, "A window and its originals are gone.", _WINDOW, keyed=True),
)
