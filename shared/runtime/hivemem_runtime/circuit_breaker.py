"""A circuit breaker: what is down is left alone for a while, and told apart from what is slow."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final, Literal

from hivemem_contracts.errors import Unavailable

State = Literal["closed", "open", "half_open"]

FAILURES: Final = 5
FIRST_WAIT_SECONDS: Final = 1.0
LONGEST_WAIT_SECONDS: Final = 60.0


class Breaker:
    """Closed, it lets every call through. After some failures in a row it opens and refuses calls at once, saying when
    it will try again; then it is half open and lets one call through, which closes it or opens it for twice as long,
    up to a bound. Only `Unavailable` is a failure: what answers, if only to refuse, is there."""

    def __init__(
        self,
        name: str,
        clock: Callable[[], float],
        *,
        failures: int = FAILURES,
        first_wait_seconds: float = FIRST_WAIT_SECONDS,
        longest_wait_seconds: float = LONGEST_WAIT_SECONDS,
    ) -> None:
        assert failures >= 1
        assert 0 < first_wait_seconds <= longest_wait_seconds
        self._name, self._clock = name, clock
        self._most_failures = failures
        self._first_wait, self._longest_wait = first_wait_seconds, longest_wait_seconds
        self._failures = 0
        self._wait = first_wait_seconds
        self._opened_until: float | None = None
        self._trying = False
        self._reason = ""
        self._round = 0

    @property
    def state(self) -> State:
        if self._opened_until is None:
            return "closed"
        return "open" if self._clock() < self._opened_until else "half_open"

    @property
    def retry_in_seconds(self) -> float:
        """After how long a call may get through; 0 if one may now."""
        if self._opened_until is None:
            return 0.0
        left = max(0.0, self._opened_until - self._clock())
        return self._first_wait if left == 0 and self._trying else left

    @contextmanager
    def guard(self) -> Generator[None, None, None]:
        """Around one call; raises `Unavailable` in its place where none is let through."""
        is_trial = self._admit()
        # How a call ends that began before the breaker opened or closed says nothing about the time since.
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
                self._trying = False  # cancelled: nothing is known, the next call is the trial

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
