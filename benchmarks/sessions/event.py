"""The one event that everybody appends: about 300 bytes as JSON, with a small state delta."""

from typing import Any, Final

APP: Final = "benchmark"
USER: Final = "alice"
AGENT: Final = "agent"
TENANT: Final = "default"
KIND: Final = "message"
_WORDS: Final = "an answer of the size that agents give one another all day; "
TEXT: Final = (_WORDS * 4)[:180]


def content() -> dict[str, Any]:
    return {"role": "user", "parts": [{"text": TEXT}]}


def delta(number: int) -> dict[str, Any]:
    """Two keys; the state of a session stays small however many events it has."""
    return {"step": number, f"slot{number % 10}": f"value-{number}"}


def append_body(session: str, number: int) -> dict[str, Any]:
    """The body of `sessions.append`."""
    return {
        "session_id": session,
        "event": {"type": KIND, "author": AGENT, "content": content()},
        "state_delta": delta(number),
    }
