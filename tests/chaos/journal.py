"""What a load sent and what it was answered: the memory that the fleet's own is compared with afterwards."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Sent:
    """One write. Each writer waits for its answer before the next, so its numbers must be found in order."""

    id: str
    kind: str
    place: str
    """What it writes to: a session, or the namespace and the key of a memory."""
    writer: str
    number: int
    body: dict[str, Any]
    durable: bool = False
    """A durable command, which is acknowledged by the stream and not by a worker's reply."""
    answer: dict[str, Any] | None = None
    """None until it is acknowledged."""


@dataclass(slots=True)
class Journal:
    sent: list[Sent] = field(default_factory=list[Sent])
    findings: list[str] = field(default_factory=list[str])
    """What was seen to be wrong while the load was still running."""
    repeated: int = 0
    """Acknowledged writes that were sent once more, to compare the answers."""

    def acknowledged(self) -> int:
        return sum(sent.answer is not None for sent in self.sent)

    def answered(self) -> int:
        """Requests alone: a durable command is acknowledged by the bus."""
        return sum(sent.answer is not None and not sent.durable for sent in self.sent)

    def summary(self) -> str:
        return f"{self.acknowledged()} writes, {self.repeated} repeated"
