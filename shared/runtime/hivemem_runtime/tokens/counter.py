"""A counter: the tokens of texts, and of messages with what a provider adds to them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import orjson

Message = Mapping[str, Any]


@dataclass(frozen=True)
class Overhead:
    """The tokens that a provider adds to the texts of messages."""

    message: int
    name: int
    tool_call: int
    image: int
    reply: int


@dataclass(frozen=True)
class TokenCounter:
    """Counts for one provider. Where it is not `exact`, the count of a text is rather too high than too low."""

    name: str
    exact: bool
    count_text: Callable[[str], int]
    overhead: Overhead

    @property
    def reply_overhead(self) -> int:
        """Return the tokens that begin the answer, once for all messages of a request."""
        return self.overhead.reply

    def count_message(self, message: Message) -> int:
        """Return the tokens of a message: its role, content, name and tool calls, and the provider's overhead.

        Providers publish no overhead of tool calls and images; a high one is assumed. Ids of tool calls are counted.
        """
        total = self.overhead.message + self.count_text(str(message.get("role", "")))
        total += self._content(message.get("content"))
        if name := message.get("name"):
            total += self.overhead.name + self.count_text(str(name))
        if call_id := message.get("tool_call_id"):
            total += self.count_text(str(call_id))
        calls = cast("list[Message]", message.get("tool_calls") or [])
        return total + sum(self.overhead.tool_call + self._json(call) for call in calls)

    def _content(self, content: object) -> int:
        if not isinstance(content, list):
            return self._json(content)
        return sum(map(self._part, cast("list[object]", content)))

    def _part(self, part: object) -> int:
        known = _fields(part)
        kind = str(known.get("type", ""))
        if kind == "text":
            return self._json(known.get("text"))
        if "image" in kind:
            return self.overhead.image  # its data costs by the size of the picture, and not as text
        return self._json(part)

    def _json(self, value: object) -> int:
        if value is None:
            return 0
        return self.count_text(value if isinstance(value, str) else orjson.dumps(value).decode())


def _fields(part: object) -> Message:
    return cast("Message", part) if isinstance(part, Mapping) else {}
