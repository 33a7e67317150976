"""How much an answer may hold: so many items, tokens and bytes."""

from collections.abc import Mapping
from typing import Any, Final, Literal

import orjson

from hivemem_contracts.limits import REPLY_BYTES
from hivemem_runtime.tokens import estimated_tokens

_SLICE: Final = 8_192


class Budget:
    """Takes the best items in their order, for as long as they fit.

    The tokens are those of an item's value as JSON, or of its text where it has no value. They are never exceeded. An
    item that alone is over all that was granted is left out, for no budget of this size could ever hold it; the first
    one that is over what is left ends the answer. Of bytes the first item may have any number.
    """

    def __init__(self, limit: int, max_tokens: int | None = None, max_bytes: int = REPLY_BYTES) -> None:
        self.lines: list[orjson.Fragment] = []
        self.cut: Literal["tokens", "bytes"] | None = None
        """Why something was left out, if anything was."""
        self._limit = limit
        self._max_tokens = max_tokens
        self._tokens = 0
        self._room = max_bytes
        self._ended = False

    @property
    def missing(self) -> int:
        """How many more it takes."""
        return 0 if self._ended else self._limit - len(self.lines)

    def add(self, item: Mapping[str, Any]) -> None:
        assert self.missing, "it is full"
        tokens = 0 if self._max_tokens is None else self._count(item, self._max_tokens)
        if self._max_tokens is not None and self._tokens + tokens > self._max_tokens:
            self.cut = self.cut or "tokens"
            self._ended = tokens <= self._max_tokens
            return
        data = orjson.dumps(item)
        if self.lines and len(data) + 1 > self._room:
            self.cut, self._ended = "bytes", True
            return
        self.lines.append(orjson.Fragment(data))
        self._room -= len(data) + 1
        self._tokens += tokens

    def _count(self, item: Mapping[str, Any], most: int) -> int:
        value = item["value"]
        return tokens_up_to(item["text"] or "" if value is None else orjson.dumps(value).decode(), most)


def tokens_up_to(text: str, most: int) -> int:
    """How many there are, or any number over the most: a long text is not counted to its end for nothing."""
    counted = 0
    for start in range(0, len(text), _SLICE):
        counted += estimated_tokens(text[start : start + _SLICE])
        if counted > most:
            break
    return counted
