"""What the load sent and what it was answered: the memory that the fleet's own is compared with afterwards."""

from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["append", "state", "command"]


@dataclass(slots=True)
class Sent:
    """One write. Each writer waits for its answer before the next, so its numbers must be found in order."""

    id: str
    kind: Kind
    session: str
    writer: str
    number: int
    body: dict[str, Any]
    answer: dict[str, Any] | None = None
    """None until it is acknowledged: by the worker's reply, or for a command by the stream's."""


@dataclass(slots=True)
class Journal:
    users: dict[str, str] = field(default_factory=dict[str, str])
    """The user of each session."""
    lives: dict[str, int] = field(default_factory=dict[str, int])
    """How often each short-lived session was created, written to and deleted."""
    sent: list[Sent] = field(default_factory=list[Sent])
    findings: list[str] = field(default_factory=list[str])
    """What was seen to be wrong while the load was still running."""
    repeated: int = 0
    """Acknowledged writes that were sent once more, to compare the answers."""

    def of(self, session: str) -> list[Sent]:
        return [sent for sent in self.sent if sent.session == session]

    def acknowledged(self) -> int:
        return sum(sent.answer is not None for sent in self.sent)
