"""Exponential backoff: how long to wait before the next try."""

from typing import Final

MOST_DOUBLINGS: Final = 30


def backoff_seconds(failures: int, first_seconds: float, longest_seconds: float) -> float:
    """Return the wait after a number of failures in a row: `first_seconds` after the first one, doubled for each
    further one, at most `longest_seconds`."""
    return float(min(first_seconds * 2 ** min(max(failures - 1, 0), MOST_DOUBLINGS), longest_seconds))


class Backoff:
    """Counts failures in a row, and says how long to wait after each."""

    def __init__(self, first_seconds: float, longest_seconds: float) -> None:
        self._first = first_seconds
        self._longest = longest_seconds
        self.failures = 0

    def failed(self) -> float:
        """Count a failure, and return how many seconds to wait before the next try."""
        self.failures += 1
        return backoff_seconds(self.failures, self._first, self._longest)

    def succeeded(self) -> None:
        """Begin anew with the first wait."""
        self.failures = 0
