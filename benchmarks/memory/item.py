"""The memory that every contender stores: about 300 bytes as JSON."""

from typing import Any, Final

AGENT: Final = "agent"
TENANT: Final = "default"
_WORDS: Final = "what an agent has learned about the one that it works for; "
TEXT: Final = (_WORDS * 5)[:220]


def value(number: int) -> dict[str, Any]:
    return {"text": TEXT, "number": number, "about": f"subject-{number % 10}"}


def namespace(name: str) -> str:
    """Return the segments of the namespace; LangGraph takes them as a tuple."""
    return f"user:{name}:facts"


def put_body(name: str, key: str, number: int) -> dict[str, Any]:
    """Return the body of `memory.put`."""
    return {"namespace": namespace(name), "key": key, "value": value(number)}
