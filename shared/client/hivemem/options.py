"""Time limits and retries of calls: the defaults of a client, changed per call by a bound copy."""

import os
from dataclasses import dataclass
from typing import Final

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
        if self.timeout_seconds <= 0 or self.attempt_seconds <= 0:
            raise ValueError("timeout_seconds and attempt_seconds are more than zero")
        if self.retries < 0:
            raise ValueError("retries is zero or more")
        if self.message_id is not None and not (self.message_id and self.message_id.strip().isprintable()):
            raise ValueError("message_id has at least one character, and no control characters")
