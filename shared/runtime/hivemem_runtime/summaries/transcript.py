"""Messages as text: who said what."""

from collections.abc import Mapping
from typing import Any, Final, cast

import orjson

from hivemem_runtime.tokens import Message

SUMMARY_ROLE: Final = "summary"
"""The role of an earlier summary among messages; its lines name their speakers already."""


def speaker(message: Message) -> str:
    return str(message.get("name") or message.get("role") or "")


def text_of(message: Message) -> str:
    """Return what a message says, without pictures, and the tool calls that it makes."""
    content = message.get("content")
    parts = cast("list[object]", content) if isinstance(content, list) else [content]
    texts = [_part(part) for part in parts]
    for call in cast("list[Mapping[str, Any]]", message.get("tool_calls") or []):
        function = cast("Mapping[str, Any]", call.get("function") or call)
        texts.append(f"calls {function.get('name')}({_part(function.get('arguments'))})")
    return "\n".join(filter(None, texts))


def line(message: Message) -> str:
    """Return a message as one line of a transcript."""
    text = " ".join(text_of(message).split())
    return text if message.get("role") == SUMMARY_ROLE else f"{speaker(message)}: {text}"


def _part(part: object) -> str:
    if part is None or isinstance(part, str):
        return part or ""
    fields: Message = cast("Message", part) if isinstance(part, Mapping) else {}
    kind = str(fields.get("type", ""))
    if kind == "text":
        return str(fields.get("text", ""))
    return "" if "image" in kind else orjson.dumps(part).decode()
