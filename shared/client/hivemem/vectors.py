"""The index: `hive.vectors`, the operations of the service, and a sweep over all of it."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final

from hivemem.services.vectors import VectorsOperations
from hivemem_contracts.vectors.operations import SWEEP
from hivemem_contracts.vectors.replies import SweepPage

if TYPE_CHECKING:
    from hivemem.hive import Hive

PART_SECONDS: Final = 60.0
"""The time limit of a part: a worker compares for about a second, and then repairs the differences."""


class Vectors(VectorsOperations):
    """Vectors: memories found by meaning, and an index of one's own."""

    def __init__(self, hive: "Hive") -> None:
        super().__init__(hive)
        self._hive = hive

    async def sweep_all(self, *, dry_run: bool = False) -> AsyncIterator[SweepPage]:
        """Compare all memories of the tenant with the index, and repair the differences; yields each finished part.

        You may leave `async for part in hive.vectors.sweep_all():` at any time; finished repairs stay.
        """
        options = self._hive.options
        hive = self._hive.with_options(
            message_id=None,  # each part is a request of its own, and not the first one sent again
            attempt_seconds=max(options.attempt_seconds, PART_SECONDS),
            timeout_seconds=max(options.timeout_seconds, 2 * PART_SECONDS),
        )
        cursor: str | None = None
        while True:
            part = await hive.send(SWEEP, {"dry_run": dry_run, "cursor": cursor})
            yield part
            cursor = part.cursor
            if cursor is None:
                return
