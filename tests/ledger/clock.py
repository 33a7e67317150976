"""A clock that stands until it is told."""

import time

SECOND = 1_000_000


class ManualClock:
    """Starts now, because a store may compare with a clock of its own; may be set back, as real ones are."""

    def __init__(self) -> None:
        self.now = time.time_ns() // 1000

    def __call__(self) -> int:
        return self.now

    def advance(self, microseconds: int = SECOND) -> int:
        self.now += microseconds
        return self.now
