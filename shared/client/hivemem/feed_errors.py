"""Why a feed cannot go on as if nothing had happened. Each names the cursor from which it could."""

from typing import Any

from hivemem_contracts.errors import HiveError


class FeedError(HiveError):
    """A gap in the feed. `resume` is the cursor to go on from: `hive.changes(since=error.resume)`."""

    def __init__(self, detail: str, /, *, resume: str, **context: Any) -> None:
        super().__init__(detail, resume=resume, **context)
        self.resume = resume


class FeedTruncated(FeedError):
    """Changes that were asked for are no longer kept: those from `expected` up to `first_available`."""

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
    """The stream of changes was made anew, or lost its end: what the cursor had seen is not what is there."""

    code = 41002


class UnreadableChange(FeedError):
    """A message of the feed is no change that this version of the client understands."""

    code = 42201
