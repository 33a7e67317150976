"""What a step of a runner gets before it begins: memories, state and events, within a number of tokens."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import JsonValue
from pydantic_core import to_json

from hivemem_contracts.sessions.models import Event
from hivemem_contracts.vectors.models import Recalled

TokenCounter = Callable[[str], int]
STARTED: Final = "step.started"
_BYTES_OF_A_TOKEN: Final = 4
_MEMORIES: Final = "What is known:"
_STATE: Final = "The state:"
_EVENTS: Final = "What happened, the newest last:"


def estimated_tokens(text: str) -> int:
    """Return a quarter of the bytes of a text in UTF-8, rounded up: about the tokens of English text, and too many
    rather than too few for most other languages."""
    return -(-len(text.encode()) // _BYTES_OF_A_TOKEN)


@dataclass(frozen=True, slots=True)
class StepContext:
    """The context of a step. `text` is made for a prompt, and keeps the limit of tokens."""

    memories: tuple[Recalled, ...] = ()
    """The recalled memories, the best first."""

    state: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """The keys of the session's state that fit."""

    events: tuple[Event, ...] = ()
    """The newest events of the session that fit, oldest first, without the starts of steps."""

    text: str = ""
    tokens: int = 0
    """The tokens of `text`, counted by the runner's `count_tokens`."""

    degraded: Mapping[str, str] = field(default_factory=dict[str, str])
    """Why the context is incomplete: `memories`, or `session` for the state and the events, each with its reason."""

    def named(self) -> dict[str, Any]:
        """Return what was retrieved, by ids and versions, for the log of the session."""
        memories = [
            {"namespace": one.namespace, "key": one.key, "version": one.version, "score": round(one.score, 4)}
            for one in self.memories
        ]
        sequences = [event.sequence for event in self.events]
        return {
            "memories": memories,
            "events": {"first": sequences[0], "last": sequences[-1]} if sequences else None,
            "state": sorted(self.state),
            "tokens": self.tokens,
            "degraded": dict(self.degraded),
        }


class ContextBuilder:
    """Fills a context, part by part. A part has a heading, and gets what the parts before it left of the budget."""

    def __init__(self, max_tokens: int, count: TokenCounter) -> None:
        self._left = max_tokens
        self._count = count
        self._sections: list[str] = []

    def build(
        self,
        memories: Sequence[Recalled],
        state: Mapping[str, JsonValue],
        events: Sequence[Event],
        degraded: Mapping[str, str],
    ) -> StepContext:
        """Take memories, the best first, up to half of the budget; then keys of the state, up to half of the rest; then
        the newest events. Longer items are left out."""
        known = self._section(_MEMORIES, (f"- {_shown(one.value)}" for one in memories), self._left // 2)
        keys = [f"{key}: {_shown(value)}" for key, value in state.items()]
        kept = self._section(_STATE, keys, self._left // 2)
        newest = [event for event in reversed(events) if event.type != STARTED]
        happened = self._section(_EVENTS, map(_line_of, newest), self._left, backwards=True)
        text = "\n".join(self._sections)
        return StepContext(
            tuple(memories[place] for place in known),
            {key: state[key] for place, key in enumerate(state) if place in set(kept)},
            tuple(newest[place] for place in reversed(happened)),
            text,
            self._count(text),
            degraded,
        )

    def _section(self, heading: str, lines: Iterable[str], most: int, *, backwards: bool = False) -> list[int]:
        """Add the lines that fit, and return their places. Of events, which are read `backwards`, none is left out
        between two others."""
        kept: list[tuple[int, str]] = []
        used = self._cost(heading)
        for place, line in enumerate(lines):
            cost = self._cost(line)
            if used + cost <= most:
                kept.append((place, line))
                used += cost
            elif backwards:
                break
        if kept:
            shown = [line for _, line in kept]
            self._sections += [heading, *(shown[::-1] if backwards else shown)]
            self._left -= used
        return [place for place, _ in kept]

    def _cost(self, line: str) -> int:
        return self._count(line + "\n")


def _line_of(event: Event) -> str:
    author = "" if event.author is None else f" by {event.author}"
    return f"- {event.type}{author}: {_shown(event.content)}"


def _shown(value: JsonValue) -> str:
    return value if isinstance(value, str) else to_json(value).decode()
