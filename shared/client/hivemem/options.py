"""Time limits and retries of calls: the defaults of a client, changed per call by a bound copy."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Self, TypedDict

from hivemem_contracts.errors import InvalidRequest
from hivemem_contracts.nearest_name import suggestion

URL_VARIABLE: Final = "HIVEMEM_URL"
DEFAULT_URL: Final = "nats://127.0.0.1:4222"
DEFAULT_TENANT: Final = "default"
DEFAULT_AGENT: Final = "default"


def default_url() -> str:
    """Return the address in the environment, or that of a fleet on this machine."""
    return os.environ.get(URL_VARIABLE) or DEFAULT_URL


@dataclass(frozen=True, slots=True)
class CallOptions:
    """The options of a call."""

    timeout_seconds: float = 15.0
    """The deadline of the whole call, with all retries. A request's own wait (`wait_ms`) is added to it."""

    attempt_seconds: float = 5.0
    """How long one attempt waits for its answer before the same request is sent again."""

    retries: int = 100
    """The maximum number of retries after the first attempt, within the deadline."""

    message_id: str | None = None
    """The idempotency key of a write. Each call gets a fresh one unless this is set."""

    large_values: bool = True
    """Whether values of sessions over 256 KiB are kept as files, and read again with what has them. Without, such a
    write raises `TooLarge`, and replies have the references."""

    traceparent: str | None = None
    """The W3C trace context that the call belongs to."""

    def __post_init__(self) -> None:
        """Raise `InvalidRequest` for a value that makes no sense."""
        for name in ("timeout_seconds", "attempt_seconds"):
            seconds: Any = getattr(self, name)
            if not isinstance(seconds, int | float) or not seconds > 0:
                raise _refused(name, "a number above zero", seconds)
        retries: Any = self.retries
        if not isinstance(retries, int) or retries < 0:
            raise _refused("retries", "an integer, zero or more", retries)
        for name in ("message_id", "traceparent"):
            text: Any = getattr(self, name)
            if text is not None and not (isinstance(text, str) and text.strip().isprintable()):
                raise _refused(name, "text without control characters", text)
        if self.message_id == "":
            raise _refused("message_id", "at least one character", "")

    def replaced(self, given: Mapping[str, Any], *, arguments: Iterable[str] = ()) -> Self:
        """Return these options with others. An unknown name is a `TypeError` with the nearest option or argument."""
        known = [field.name for field in fields(self)]
        for name in given:
            if name not in known:
                raise TypeError(f"there is no option {name!r}{suggestion(name, [*known, *arguments])}")
        return replace(self, **given)


def _refused(name: str, wanted: str, value: object) -> InvalidRequest:
    return InvalidRequest(f"{name}: {wanted} is wanted, got {value!r:.120}", field=name)


class OptionFields(TypedDict, total=False):
    """The fields of `CallOptions`, for `with_options`."""

    timeout_seconds: float
    attempt_seconds: float
    retries: int
    message_id: str | None
    large_values: bool
    traceparent: str | None
