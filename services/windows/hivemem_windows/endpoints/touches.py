"""Uses of windows by reads, collected in memory and written each second: a worker that is killed loses the last."""

from collections.abc import Sequence
from typing import Final

from hivemem_runtime.ledger.port import Ledger, system_write
from hivemem_windows.decisions.endings import touch_content
from hivemem_windows.decisions.windows import Rules
from hivemem_windows.entities.contents import CONTENT

COLLECTED: Final = 10_000
"""The most windows whose uses are collected between two writes; further ones are passed over."""
COUNTING: Final = ("lru", "lfu")


class Touches:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._noted: dict[tuple[str, str], tuple[Rules, dict[int, int]]] = {}

    def note(self, tenant: str, window: str, rules: Rules, units: Sequence[int]) -> None:
        """Note a read, where eviction, flushing or expiry ask for it."""
        resource = rules.resource
        flushes = resource.flushing is not None and resource.flushing.strategy in COUNTING
        counting = resource.eviction in COUNTING or flushes
        if not counting and resource.ttl_seconds is None:
            return
        if (tenant, window) not in self._noted and len(self._noted) >= COLLECTED:
            return
        _, reads = self._noted.setdefault((tenant, window), (rules, {}))
        if counting:
            for unit in units:
                reads[unit] = reads.get(unit, 0) + 1

    async def write_all(self) -> None:
        """Write what was noted."""
        noted, self._noted = self._noted, {}
        for (tenant, window), (rules, reads) in noted.items():
            await self._write(tenant, window, rules, reads)

    async def _write(self, tenant: str, window: str, rules: Rules, reads: dict[int, int]) -> None:
        await self._ledger.commit(
            system_write(tenant, CONTENT, window, lambda heads, now: touch_content(heads, window, reads, rules, now))
        )
