"""The event that every contender appends: about 300 bytes as JSON, with a small state delta."""

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
    """Return a delta of two keys, so that the state of a session stays small."""
    return {"step": number, f"slot{number % 10}": f"value-{number}"}


def append_body(session: str, number: int) -> dict[str, Any]:
    """Return the body of `sessions.append`."""
    return {
        "session_id": session,
        "event": {"type": KIND, "author": AGENT, "content": content()},
        "state_delta": delta(number),
    }
