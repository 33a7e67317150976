"""Replies and tool results in the forms of OpenAI, Anthropic and Gemini, as messages of a window."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

import orjson

from hivemem_contracts.error_values import shown
from hivemem_contracts.errors import InvalidRequest
from hivemem_contracts.identifiers import new_id

JsonObject = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool that a model asks for."""

    id: str
    name: str
    arguments: Any
    """The arguments, or the text of the model if it is not JSON."""

    def stored(self) -> dict[str, Any]:
        """Return the call in the form in which windows keep calls, which is that of OpenAI."""
        arguments = self.arguments if isinstance(self.arguments, str) else orjson.dumps(self.arguments).decode()
        return {"id": self.id, "type": "function", "function": {"name": self.name, "arguments": arguments}}


@dataclass(frozen=True, slots=True)
class Answer:
    """The text of a model, and the tools that it calls."""

    text: str
    tool_calls: tuple[ToolCall, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool. Gemini names the tool in place of the call."""

    content: Any
    call_id: str | None = None
    name: str | None = None


def read_answer(reply: object) -> Answer:
    """Return the answer in a reply: a text, an object or JSON of a provider, or the message within.

    Raises `InvalidRequest` for anything else. The thoughts of a model are left out.
    """
    if isinstance(reply, str):
        return Answer(reply)
    fields = _fields(reply, "reply")
    if fields.get("choices"):
        return _openai(_fields(_first(fields["choices"], "reply.choices").get("message"), "reply.choices.0.message"))
    if fields.get("candidates"):
        candidate = _first(fields["candidates"], "reply.candidates")
        return _gemini(_fields(candidate.get("content") or {}, "reply.candidates.0.content"))
    if fields.get("parts"):
        return _gemini(fields)
    if isinstance(fields.get("content"), list):
        return _anthropic(fields["content"])
    if "content" in fields or fields.get("tool_calls"):
        return _openai(fields)
    raise InvalidRequest(
        f"reply: no answer of OpenAI, Anthropic or Gemini has the fields {shown(list(fields))}", field="reply"
    )


def read_result(result: object) -> ToolResult:
    """Return a tool result in the form of a provider: OpenAI's `tool` message, Anthropic's `tool_result` block, or
    Gemini's part with a `functionResponse`. Raises `InvalidRequest` for anything else."""
    fields = _fields(result, "result")
    if fields.get("tool_call_id"):
        return ToolResult(fields.get("content"), str(fields["tool_call_id"]))
    if fields.get("type") == "tool_result":
        return ToolResult(_plain_text(fields.get("content")), str(fields.get("tool_use_id")))
    response = fields.get("functionResponse") or fields.get("function_response")
    if isinstance(response, Mapping):
        given = cast("JsonObject", response)
        return ToolResult(given.get("response"), given.get("id"), given.get("name"))
    raise InvalidRequest(
        f"result: no tool result of OpenAI, Anthropic or Gemini has the fields {shown(list(fields))}", field="result"
    )


def _openai(message: JsonObject) -> Answer:
    text = _plain_text(message.get("content")) or message.get("refusal") or ""
    calls: list[ToolCall] = []
    for place, call in enumerate(message.get("tool_calls") or ()):
        function = _fields(call.get("function"), f"reply.tool_calls.{place}.function")
        calls.append(_call(call.get("id"), function.get("name"), function.get("arguments")))
    return Answer(str(text), tuple(calls))


def _anthropic(blocks: Sequence[JsonObject]) -> Answer:
    used = [block for block in blocks if block.get("type") == "tool_use"]
    return Answer(
        str(_plain_text(blocks)), tuple(_call(block.get("id"), block.get("name"), block.get("input")) for block in used)
    )


def _gemini(content: JsonObject) -> Answer:
    parts = cast("Sequence[JsonObject]", content.get("parts") or ())
    texts = [str(part["text"]) for part in parts if part.get("text") and not part.get("thought")]
    calls = [call for part in parts if (call := part.get("functionCall") or part.get("function_call"))]
    return Answer("".join(texts), tuple(_call(call.get("id"), call.get("name"), call.get("args")) for call in calls))


def _call(call_id: object, name: object, arguments: object) -> ToolCall:
    if isinstance(arguments, str):
        with suppress(orjson.JSONDecodeError):
            arguments = orjson.loads(arguments or "{}")
    return ToolCall(str(call_id or new_id()), str(name), {} if arguments is None else arguments)


def _plain_text(content: object) -> object:
    """Return the text of a content that has only texts, besides blocks of other kinds than images."""
    if not isinstance(content, list):
        return content
    parts = cast("list[object]", content)
    if any(isinstance(part, Mapping) and "image" in str(cast("JsonObject", part).get("type")) for part in parts):
        return parts
    return "\n".join(_texts(parts))


def _texts(parts: Sequence[object]) -> Iterator[str]:
    for part in parts:
        if isinstance(part, str):
            yield part
        elif isinstance(part, Mapping) and cast("JsonObject", part).get("type") == "text":
            yield str(cast("JsonObject", part).get("text"))


def _fields(value: object, field: str) -> JsonObject:
    """Return the JSON object of a value: it is one, or it is an object of a provider's library."""
    if isinstance(value, Mapping):
        return cast("JsonObject", value)
    dump = getattr(value, "model_dump", None)
    if dump is None:
        raise InvalidRequest(f"{field}: an object of a provider or its JSON is wanted, got {shown(value)}", field=field)
    return cast("JsonObject", dump(mode="json", exclude_none=True))


def _first(items: object, field: str) -> JsonObject:
    return _fields(cast("Sequence[object]", items)[0], f"{field}.0")
