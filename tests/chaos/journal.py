"""The journal of a load: what it sent and which answers it got, to compare with the content of the fleet."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Sent:
    """One write. Each writer waits for its answer before the next, so its numbers must be found in order."""

    id: str
    kind: str
    place: str
    """The address of the write: a session, or the namespace and the key of a memory."""
    writer: str
    number: int
    body: dict[str, Any]
    durable: bool = False
    """True for a durable command, which the stream acknowledges instead of a worker."""
    answer: dict[str, Any] | None = None
    """The answer; None until the write is acknowledged."""


@dataclass(slots=True)
class Journal:
    sent: list[Sent] = field(default_factory=list[Sent])
    findings: list[str] = field(default_factory=list[str])
    """Faults that were seen while the load was still running."""
    repeated: int = 0
    """Acknowledged writes that were sent again, to compare the answers."""

    def acknowledged(self) -> int:
        return sum(sent.answer is not None for sent in self.sent)

    def answered(self) -> int:
        """Return the answered requests, without durable commands, which the bus acknowledges."""
        return sum(sent.answer is not None and not sent.durable for sent in self.sent)

    def summary(self) -> str:
        return f"{self.acknowledged()} writes, {self.repeated} repeated"
