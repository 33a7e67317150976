"""The writes of the load, and which of them a ledger that was put back need not know."""

from dataclasses import dataclass, field

from .. import journal
from ..journal import Sent
from ..strikes.cuts import Ledger


@dataclass(slots=True)
class Journal(journal.Journal):
    unsure: set[str] = field(default_factory=set[str])
    """Acknowledged after the copy that the ledger was put back to."""

    def of(self, place: str) -> list[Sent]:
        return [sent for sent in self.sent if sent.place == place]

    def acknowledged_by(self, ledger: Ledger) -> set[str]:
        return {sent.id for sent in self.sent if ledger_of(sent) == ledger and sent.answer is not None}

    def put_back(self, ledger: Ledger, kept: set[str]) -> None:
        """Writes that were under way when the copy was made may be in it or not."""
        self.unsure |= {sent.id for sent in self.sent if ledger_of(sent) == ledger} - kept


def ledger_of(sent: Sent) -> Ledger:
    return "sessions" if sent.kind == "append" else "memory"
