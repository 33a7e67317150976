"""Dialogues with questions, and the turns that answer each question."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from hivemem_runtime.tokens import estimated_tokens


@dataclass(frozen=True)
class Turn:
    id: str
    session: str
    speaker: str
    text: str
    at: datetime | None

    @property
    def line(self) -> str:
        """Return the turn as a memory of its own: when, who and what."""
        said = f"{self.speaker}: {self.text}"
        return said if self.at is None else f"{self.at:%d %B %Y, %H:%M}. {said}"


@dataclass(frozen=True)
class Question:
    text: str
    category: str
    evidence: frozenset[str]
    answerable: bool = True


@dataclass(frozen=True)
class Dialogue:
    """One conversation over many sessions, and its questions that have evidence."""

    name: str
    turns: Sequence[Turn]
    questions: Sequence[Question]

    @cached_property
    def by_id(self) -> Mapping[str, Turn]:
        return {turn.id: turn for turn in self.turns}

    @cached_property
    def tokens(self) -> Mapping[str, int]:
        """Return about how many tokens each turn has."""
        return {turn.id: estimated_tokens(turn.line) for turn in self.turns}


@dataclass(frozen=True)
class Dataset:
    name: str
    dialogues: Sequence[Dialogue]

    @property
    def title(self) -> str:
        """Return the name with its sizes: figures of sets of other sizes cannot be compared."""
        turns = sum(len(dialogue.turns) for dialogue in self.dialogues)
        questions = sum(len(dialogue.questions) for dialogue in self.dialogues)
        return f"{self.name}, {turns:,} turns, {questions:,} questions"
