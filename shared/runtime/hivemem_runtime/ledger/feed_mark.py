"""How far the feed was told, as a ledger keeps it."""

from typing import NamedTuple


class FeedMark(NamedTuple):
    """The last place of the feed that the announced marks of this ledger rely on.

    `stream` is the creation time of the stream, `epoch` its epoch, `message` the id of the message at `sequence`.
    Records from before `begins` had left the feed by age or size when the ledger was last announced again. `ledger` is
    a random name of the ledger: several ledgers may announce on one feed. `oldest` is the first sequence that the
    stream held when it was last found whole; 0 where that is not known."""

    stream: str
    epoch: str
    sequence: int
    message: str
    begins: int = 0
    ledger: str = ""
    oldest: int = 0

    @property
    def epoch_number(self) -> int:
        return epoch_number(self.epoch)

    @property
    def unfinished(self) -> bool:
        """Whether a ledger that makes its keys due again has not come to the end of them."""
        return self.sequence < 0

    def replaces(self, other: "FeedMark | None") -> bool:
        """Whether it is the newer one of two: a later epoch goes first, then the place within it."""
        return other is None or (self.epoch_number, self.sequence) > (other.epoch_number, other.sequence)


def epoch_number(epoch: str) -> int:
    """Return the count at the beginning of an epoch such as `3-9f2c`; a stream that never had one is at 0."""
    return int(epoch.partition("-")[0] or 0)
