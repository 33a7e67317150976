"""How many tokens a message has, as its resource's provider counts them."""

from collections.abc import Mapping
from typing import Any, Final

import orjson

from hivemem_contracts.errors import InvalidRequest
from hivemem_runtime.tokens import estimated_tokens

OVERHEAD: Final = 4
"""The tokens of a message besides its texts: its role, and where it begins and ends."""

_ESTIMATE: Final = "estimate"
_COUNTED: Final = ("name", "tool_calls", "tool_call_id")


def check_provider(provider: str | None) -> None:
    """Raise `InvalidRequest` for a provider that nothing counts for."""
    if provider not in (None, _ESTIMATE):
        raise InvalidRequest(
            f"resource.token_provider: {provider!r} is unknown, there is {_ESTIMATE!r}", field="resource.token_provider"
        )


def count_message(provider: str | None, message: Mapping[str, Any]) -> int:
    """Return the tokens of a message: its content, its name, its tool calls and the overhead."""
    content = message.get("content")
    total = OVERHEAD + estimated_tokens(message["role"])
    for part in (content, *(message.get(name) for name in _COUNTED)):
        if part is not None:
            total += estimated_tokens(part if isinstance(part, str) else orjson.dumps(part).decode())
    return total
