"""The store's check reports a full disk under SQLite, for writes of any size, until there is room again."""

from pathlib import Path
from typing import Final

import pytest

from hivemem_contracts.errors import Unavailable
from hivemem_runtime.ledger.sqlite.ledger import SqliteLedger
from hivemem_testing.disks import grow, small_disk

from .backends import within
from .entities import NOTE
from .writes import edit

MEBIBYTES: Final = 4
LARGE: Final = 300_000


async def until_full(ledger: SqliteLedger) -> int:
    """Write until the disk is full; return the number of large writes that fitted."""
    for stored in range(100):
        try:
            await within(ledger.commit(edit(f"n{stored}", "x" * LARGE)))
        except Unavailable:
            return stored
    pytest.fail("the disk never was full")


async def test_a_full_disk_shows_in_the_check_until_there_is_room_again(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    with small_disk(disk, MEBIBYTES):
        ledger = SqliteLedger(disk / "ledger.db", [NOTE])
        await ledger.open()
        await within(ledger.check())
        stored = await until_full(ledger)
        with pytest.raises(Unavailable, match="full"):
            await within(ledger.check())
        # A small write may still fit into space that the refused one has allocated.
        for _ in range(3):
            with pytest.raises(Unavailable):
                await within(ledger.check())
        grow(disk, 4 * MEBIBYTES)
        await within(ledger.check())
        await within(ledger.commit(edit("last", "x" * LARGE)))
        assert len(await ledger.heads(NOTE, "acme", [f"n{number}" for number in range(100)])) == stored
        await ledger.close()
