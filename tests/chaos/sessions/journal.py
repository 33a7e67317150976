"""The journal of the sessions load, and the sessions that exist."""

from dataclasses import dataclass, field

from .. import journal
from ..journal import Sent


@dataclass(slots=True)
class Journal(journal.Journal):
    users: dict[str, str] = field(default_factory=dict[str, str])
    """The user of each session."""
    lives: dict[str, int] = field(default_factory=dict[str, int])
    """The number of times each short-lived session was created, written and deleted."""

    def of(self, session: str) -> list[Sent]:
        return [sent for sent in self.sent if sent.place == session]

    def summary(self) -> str:
        return f"{journal.Journal.summary(self)}, {sum(self.lives.values())} lives"
