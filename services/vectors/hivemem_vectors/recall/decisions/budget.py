"""The budget of an answer: items, tokens and bytes."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import orjson

from hivemem_contracts.limits import REPLY_BYTES
from hivemem_runtime.tokens import estimated_tokens

_SLICE: Final = 8_192


class Budget:
    """Takes the best items in order, as long as they fit.

    The tokens of an item are counted in its value as JSON, or in its text if it has no value, and in the texts of its
    context. They never exceed the limit. An item that alone exceeds the whole limit is left out, because no budget of
    this size can hold it; the first item over the rest ends the answer. The first item may have any number of bytes.
    """

    def __init__(self, limit: int, max_tokens: int | None = None, max_bytes: int = REPLY_BYTES) -> None:
        self.lines: list[orjson.Fragment] = []
        self.cut: Literal["tokens", "bytes"] | None = None
        """The reason why an item was left out, if one was."""
        self._limit = limit
        self._max_tokens = max_tokens
        self._tokens = 0
        self._room = max_bytes
        self._ended = False

    @property
    def missing(self) -> int:
        """The number of items that still fit."""
        return 0 if self._ended else self._limit - len(self.lines)

    def add(self, item: dict[str, Any]) -> bool:
        """Take an item if it fits. Return False if it belongs into a further answer."""
        assert self.missing, "it is full"
        tokens = 0
        if self._max_tokens is not None:
            tokens = self._count(item, self._max_tokens)
            if self._tokens + tokens > self._max_tokens:
                self.cut = self.cut or "tokens"
                self._ended = tokens <= self._max_tokens
                return not self._ended
        data = orjson.dumps(item)
        if self.lines and len(data) + 1 > self._room:
            self.cut, self._ended = "bytes", True
            return False
        self.lines.append(orjson.Fragment(data))
        self._room -= len(data) + 1
        self._tokens += tokens
        return True

    def _count(self, item: dict[str, Any], most: int) -> int:
        """Count the tokens of an item. Its value is replaced by its JSON, so that it is written once."""
        context: Mapping[str, Sequence[Mapping[str, Any]]] = item.get("context") or {}
        tokens = sum([tokens_up_to(turn["text"], most) for turns in context.values() for turn in turns])
        if item["value"] is None:
            return tokens + tokens_up_to(item["text"] or "", most)
        data = orjson.dumps(item["value"])
        item["value"] = orjson.Fragment(data)
        return tokens + tokens_up_to(data.decode(), most)


def tokens_up_to(text: str, most: int) -> int:
    """Return the number of tokens, or any number over `most`: the rest of a long text is not counted."""
    counted = 0
    for start in range(0, len(text), _SLICE):
        counted += estimated_tokens(text[start : start + _SLICE])
        if counted > most:
            break
    return counted
