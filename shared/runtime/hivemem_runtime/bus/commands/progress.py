"""Whether the commands of a partition move, whoever handles them."""

from collections.abc import Mapping
from typing import Any, Final

from hivemem_runtime.clock import elapsed_seconds

STALL_SECONDS: Final = 6.0
"""A partition whose messages wait that long without one being settled stands still."""
GAP_SECONDS: Final = 10.0
"""After a longer gap between two looks nothing is known of the time between them."""


def pins(info: Mapping[str, Any]) -> list[str]:
    """Who holds the pin, as the consumer says: nobody or one."""
    found = (group.get("pinned_client_id") for group in info.get("priority_groups") or ())
    return [pin for pin in found if pin]


class Progress:
    """What a partition's consumer says of itself, compared from one look to the next."""

    def __init__(self) -> None:
        self.lag: int | None = None
        """Messages that wait in the stream or are being handled; None while unknown."""
        self._floor = 0
        self._pinned = False
        self._noted_at = self._moved_at = self._pinned_at = elapsed_seconds()

    def note(self, info: Mapping[str, Any]) -> None:
        at = elapsed_seconds()
        lag = int(info["num_pending"]) + int(info["num_ack_pending"])
        floor = int(info["ack_floor"]["stream_seq"])
        known = self.lag is not None and at - self._noted_at < GAP_SECONDS
        if not (known and self.lag) or lag == 0 or lag < self.lag or floor > self._floor:
            self._moved_at = at
        self._pinned = bool(pins(info))
        if not (known and self.lag) or lag == 0 or self._pinned:
            self._pinned_at = at
        self.lag, self._floor, self._noted_at = lag, floor, at

    @property
    def abandoned_seconds(self) -> float:
        """For how long messages have waited while nobody held the pin."""
        return self._noted_at - self._pinned_at

    @property
    def trouble(self) -> str | None:
        still = self._noted_at - self._moved_at
        if not self.lag or still < STALL_SECONDS:
            return None
        holder = "" if self._pinned else ", and no worker holds its pin"
        return f"{self.lag} commands wait and none was settled for {still:.0f} s{holder}"
