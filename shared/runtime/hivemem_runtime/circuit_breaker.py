"""A circuit breaker around something that may be down: it fails fast, and knows how the last call went."""

import time
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
from typing import Final, Literal, NamedTuple

from hivemem_contracts.errors import HiveError, Unavailable

State = Literal["closed", "open", "half_open"]

FAILURES: Final = 5
FIRST_WAIT_SECONDS: Final = 1.0
LONGEST_WAIT_SECONDS: Final = 60.0
LONGEST_PAUSE_SECONDS: Final = 10.0
"""The longest pause that one failed call asks for, whatever its `retry_after_ms` says."""

_PAUSE_MS: Final = 1_000


class Health(NamedTuple):
    """Whether the last call succeeded, and the error's text if it did not."""

    ready: bool
    detail: str | None = None


class CircuitBreaker:
    """Lets calls through while it is closed, and opens after some failures in a row.

    While it is open, calls are refused at once with the time of the next try. After that time it is half open: one
    call gets through, and either closes the breaker or opens it for twice as long, up to a bound. Only `Unavailable`
    counts as a failure, because an error of any other kind proves that somebody answered.
    """

    def __init__(
        self,
        name: str,
        clock: Callable[[], float] = time.monotonic,
        *,
        failures: int = FAILURES,
        first_wait_seconds: float = FIRST_WAIT_SECONDS,
        longest_wait_seconds: float = LONGEST_WAIT_SECONDS,
        broken_by: Collection[str] = (),
    ) -> None:
        """`broken_by` names fields: an `InvalidRequest` for one of them is a wrong set-up, which no other call would
        survive either. It shows in `health`, and opens nothing."""
        assert failures >= 1
        assert 0 < first_wait_seconds <= longest_wait_seconds
        self._name, self._clock = name, clock
        self._most_failures = failures
        self._first_wait, self._longest_wait = first_wait_seconds, longest_wait_seconds
        self._broken_by = frozenset(broken_by)
        self._failures = 0
        self._wait = first_wait_seconds
        self._opened_until: float | None = None
        self._paused_until = 0.0
        self._trying = False
        self._reason = ""
        self._round = 0
        self.health = Health(True)

    @property
    def state(self) -> State:
        if self._opened_until is None:
            return "closed"
        return "open" if self._clock() < self._opened_until else "half_open"

    @property
    def retry_in_seconds(self) -> float:
        """Return the seconds until a call may get through; 0 if one may now."""
        if self._opened_until is None:
            return 0.0
        left = max(0.0, self._opened_until - self._clock())
        return self._first_wait if left == 0 and self._trying else left

    @property
    def is_paused(self) -> bool:
        """Return whether a retry is useless for now: the last call failed, and asked for a later try."""
        return self._clock() < self._paused_until

    @contextmanager
    def guard(self) -> Generator[None, None, None]:
        """Wrap one call. Raises `Unavailable` instead of letting it through while the breaker is open."""
        try:
            with self._counted():
                yield
        except HiveError as error:
            self._note(error)
            raise
        self._paused_until, self.health = 0.0, Health(True)

    @contextmanager
    def _counted(self) -> Generator[None, None, None]:
        is_trial = self._admit()
        # The end of a call that began before the breaker opened or closed says nothing about the time since.
        admitted = self._round
        try:
            yield
        except Unavailable as error:
            if admitted == self._round:
                self._failed(error)
            raise
        except Exception:
            if admitted == self._round:
                self._succeeded()
            raise
        else:
            if admitted == self._round:
                self._succeeded()
        finally:
            if is_trial and admitted == self._round:
                self._trying = False  # a cancelled trial proves nothing, so the next call is the trial

    def _admit(self) -> bool:
        if self._opened_until is None:
            return False
        if (wait := self.retry_in_seconds) > 0:
            raise Unavailable(
                f"{self._name} is left alone for {wait:.1f} s: {self._reason}", retry_after_ms=int(wait * 1_000) + 1
            )
        self._trying = True
        return True

    def _succeeded(self) -> None:
        self._failures = 0
        self._wait = self._first_wait
        if self._opened_until is not None:
            self._opened_until = None
            self._next_round()

    def _failed(self, error: Unavailable) -> None:
        self._failures += 1
        if self._opened_until is None and self._failures < self._most_failures:
            return
        asked = error.context.get("retry_after_ms", 0)
        wait = max(self._wait, asked / 1_000 if isinstance(asked, int | float) else 0.0)
        self._reason = error.detail
        self._opened_until = self._clock() + min(wait, self._longest_wait)
        self._wait = min(self._wait * 2, self._longest_wait)
        self._next_round()

    def _next_round(self) -> None:
        self._round += 1
        self._trying = False

    def _note(self, error: HiveError) -> None:
        if error.retryable:
            self._paused_until = self._clock() + min(retry_after_ms(error) / 1_000, LONGEST_PAUSE_SECONDS)
        if error.retryable or error.context.get("field") in self._broken_by:
            self.health = Health(False, error.detail)


def retry_after_ms(error: HiveError) -> int:
    """Return the wait that an error asks for, or a second if it asks for none."""
    asked = error.context.get("retry_after_ms")
    return int(asked) if isinstance(asked, int | float) and asked > 0 else _PAUSE_MS
