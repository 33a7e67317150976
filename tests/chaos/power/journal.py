"""The writes of the load, and which of them a restored ledger may have lost."""

from dataclasses import dataclass, field

from .. import journal
from ..journal import Sent
from ..strikes.cuts import Ledger


@dataclass(slots=True)
class Journal(journal.Journal):
    unsure: set[str] = field(default_factory=set[str])
    """Ids of writes that were acknowledged after the copy from which the ledger was restored."""

    def of(self, place: str) -> list[Sent]:
        return [sent for sent in self.sent if sent.place == place]

    def acknowledged_by(self, ledger: Ledger) -> set[str]:
        return {sent.id for sent in self.sent if ledger_of(sent) == ledger and sent.answer is not None}

    def put_back(self, ledger: Ledger, kept: set[str]) -> None:
        """Note that the ledger was restored. Its copy may lack writes that were in flight when it was made."""
        self.unsure |= {sent.id for sent in self.sent if ledger_of(sent) == ledger} - kept


def ledger_of(sent: Sent) -> Ledger:
    return "sessions" if sent.kind == "append" else "memory"
