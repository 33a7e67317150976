"""A clock that moves only when a test moves it."""

import time

SECOND = 1_000_000


class ManualClock:
    """A clock that starts now, because a store may compare with its own clock. It may be set back, as real ones are."""

    def __init__(self) -> None:
        self.now = time.time_ns() // 1000

    def __call__(self) -> int:
        return self.now

    def advance(self, microseconds: int = SECOND) -> int:
        self.now += microseconds
        return self.now
