"""Summaries of flushed messages: by a rule, or by a model with the rule behind it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

import orjson

from hivemem_contracts.errors import InvalidRequest, Unavailable
from hivemem_runtime.circuit_breaker import CircuitBreaker

CHARACTERS_OF_A_MESSAGE: Final = 240
CHARACTERS_OF_A_TOKEN: Final = 32
"""More than a token of any text has: what is before them is never counted."""

INPUT_CHARACTERS: Final = 200_000
"""What a model reads at once; of more, the newest part."""

_PROMPT: Final = (
    "You condense the earlier part of a conversation for the model that continues it. Keep names, numbers, decisions "
    "and open questions. Answer with the summary alone, in at most {tokens} tokens."
)


@dataclass(frozen=True, slots=True)
class SummaryText:
    """A summary, who made it, and why not the model, if that was asked for."""

    text: str
    by: Literal["rule", "model"]
    fallback: str | None = None


class Model(Protocol):
    """A language model behind an endpoint."""

    async def complete(self, prompt: str, text: str, max_tokens: int) -> str:
        """Return the answer. Raises `Unavailable` or `InvalidRequest`."""
        ...

    async def close(self) -> None: ...


class Summarizer:
    """Condenses messages and the summary before them."""

    def __init__(self, model: Model | None = None) -> None:
        self._model = model
        self._breaker = CircuitBreaker("the model of summaries")

    @property
    def breaker(self) -> Literal["closed", "open", "half_open", "none"]:
        return "none" if self._model is None else self._breaker.state

    async def summarize(
        self, before: str, messages: Sequence[Mapping[str, Any]], max_tokens: int, by: str
    ) -> SummaryText:
        """Return a summary, which may be longer than asked for. Where the model fails, the rule makes it."""
        rule = "\n".join(filter(None, [before, *map(condensed, messages)]))
        if by != "model":
            return SummaryText(rule, "rule")
        if self._model is None:
            return SummaryText(rule, "rule", "this fleet has no model for summaries")
        whole = "\n".join(filter(None, [before, *(_line(message, INPUT_CHARACTERS) for message in messages)]))
        try:
            with self._breaker.guard():
                prompt = _PROMPT.format(tokens=max_tokens)
                text = (await self._model.complete(prompt, whole[-INPUT_CHARACTERS:], max_tokens)).strip()
        except (Unavailable, InvalidRequest) as error:
            return SummaryText(rule, "rule", error.detail)
        return SummaryText(text, "model") if text else SummaryText(rule, "rule", "the model's summary is empty")

    async def close(self) -> None:
        if self._model is not None:
            await self._model.close()


def condensed(message: Mapping[str, Any]) -> str:
    """Return a message as one line: who said it, and how it begins."""
    return _line(message, CHARACTERS_OF_A_MESSAGE)


def _line(message: Mapping[str, Any], characters: int) -> str:
    content = message.get("content")
    text = content if isinstance(content, str) else "" if content is None else orjson.dumps(content).decode()
    for call in message.get("tool_calls") or ():
        text += f" [calls {orjson.dumps(call.get('function', call)).decode()}]"
    text = " ".join(text.split())
    if len(text) > characters:
        text = text[: characters - 1].rsplit(" ", 1)[0] + "…"
    return f"{message.get('name') or message['role']}: {text}" if text else ""


def cut_to(text: str, max_tokens: int, count: Callable[[str], int]) -> str:
    """Return the newest lines of a summary that fit into a number of tokens, or else the end of the last line."""
    lines = text[-CHARACTERS_OF_A_TOKEN * max_tokens :].split("\n")
    low, high = 0, len(lines)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if count("\n".join(lines[middle:])) <= max_tokens else (middle + 1, high)
    if low < len(lines):
        return "\n".join(lines[low:])
    low, high = 0, len(lines[-1])
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if count(lines[-1][middle:]) <= max_tokens else (middle + 1, high)
    return lines[-1][low:]
