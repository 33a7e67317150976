"""How the parts that the index stands on did when they were last asked."""

from collections.abc import Callable
from typing import Final, NamedTuple

from hivemem_contracts.errors import HiveError

LONGEST_PAUSE_SECONDS: Final = 10.0
"""What is down is asked again no later than this, however long it would like to be left alone."""

_PAUSE_MS: Final = 1_000


class Health(NamedTuple):
    """Whether a part could be used when it was last asked, and what it said where it could not."""

    ready: bool
    detail: str | None = None


class Condition:
    """Of one part; well until it says otherwise. `clock` counts seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._not_before = 0.0
        self.health = Health(True)

    @property
    def is_paused(self) -> bool:
        """Whether asking again is of no use yet."""
        return self._clock() < self._not_before

    def well(self) -> None:
        self.health = Health(True)
        self._not_before = 0.0

    def failed(self, error: HiveError) -> None:
        self.health = Health(False, error.detail)
        if error.retryable:
            seconds = retry_after_ms(error) / 1_000
            self._not_before = self._clock() + min(seconds, LONGEST_PAUSE_SECONDS)


def retry_after_ms(error: HiveError) -> int:
    asked = error.context.get("retry_after_ms")
    return int(asked) if isinstance(asked, int | float) and asked > 0 else _PAUSE_MS
