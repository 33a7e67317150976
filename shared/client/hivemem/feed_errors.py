"""The errors of a feed with a gap. Each names the cursor from which the feed can continue."""

from typing import Any

from hivemem_contracts.errors import HiveError


class FeedError(HiveError):
    """A gap in the feed. `resume` is the cursor to continue from: `hive.changes(since=error.resume)`."""

    def __init__(self, detail: str, /, *, resume: str, **context: Any) -> None:
        super().__init__(detail, resume=resume, **context)
        self.resume = resume


class FeedTruncated(FeedError):
    """The requested changes from `expected` up to `first_available` are no longer kept."""

    code = 41001

    def __init__(self, expected: int, first_available: int, resume: str) -> None:
        super().__init__(
            f"the changes from sequence {expected} up to {first_available - 1} are no longer kept",
            resume=resume,
            expected=expected,
            first_available=first_available,
        )
        self.expected = expected
        self.first_available = first_available


class FeedRecreated(FeedError):
    """The stream of changes was recreated, or lost its end: the cursor belongs to another feed."""

    code = 41002


class UnreadableChange(FeedError):
    """This version of the client does not understand a message of the feed."""

    code = 42201
