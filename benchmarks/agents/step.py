"""The cycle that every contender writes: a proposal and a result of about 200 bytes each."""

from typing import Any, Final

AGENT: Final = "runner"
TENANT: Final = "default"
_WORDS: Final = "what the agent wants to do next, and why it believes so; "
THOUGHTS: Final = (_WORDS * 4)[:150]


def proposal(number: int) -> dict[str, Any]:
    return {"thoughts": THOUGHTS, "tool": {"name": "search", "arguments": {"number": number}}}


def result(number: int) -> dict[str, Any]:
    return {"outcome": "success", "output": {"text": THOUGHTS, "number": number}}
