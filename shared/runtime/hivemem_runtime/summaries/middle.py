"""The part of a conversation that a summary replaces."""

from collections.abc import Iterator, Sequence
from typing import Any, cast

from hivemem_runtime.tokens import Message


def middle(messages: Sequence[Message], keep_first: int, keep_last: int) -> range:
    """Return the places of the messages between the first and the last ones that are kept.

    It is shorter where it would part a tool call from one of its results.
    """
    start, end = keep_first, len(messages) - keep_last
    pairs = sorted(_pairs(messages))
    for call, result in pairs:
        if call < start <= result:
            start = result + 1
    for call, result in sorted(pairs, key=lambda pair: pair[1], reverse=True):
        if call < end <= result:
            end = call
    return range(start, max(start, end))


def _pairs(messages: Sequence[Message]) -> Iterator[tuple[int, int]]:
    """Yield the places of each tool call and each of its results. An id may be used again after its result."""
    called: dict[str, int] = {}
    for place, message in enumerate(messages):
        for call in cast("Sequence[dict[str, Any]]", message.get("tool_calls") or ()):
            called[str(call.get("id"))] = place
        result_of = message.get("tool_call_id")
        if result_of is not None and str(result_of) in called:
            yield called[str(result_of)], place
