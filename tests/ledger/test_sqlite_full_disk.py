"""A full disk under SQLite shows in the check of the store, for writes of any size, until there is room again."""

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
    """How many large writes the disk had room for."""
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
        # A small write may still find room, in what the refused one had begun to write.
        for _ in range(3):
            with pytest.raises(Unavailable):
                await within(ledger.check())
        grow(disk, 4 * MEBIBYTES)
        await within(ledger.check())
        await within(ledger.commit(edit("last", "x" * LARGE)))
        assert len(await ledger.heads(NOTE, "acme", [f"n{number}" for number in range(100)])) == stored
        await ledger.close()


async def test_a_store_that_is_read_only_fails_the_check(tmp_path: Path) -> None:
    """A check that changes nothing would pass."""
    path = tmp_path / "ledger.db"
    ledger = SqliteLedger(path, [NOTE])
    await ledger.open()
    await within(ledger.check())
    writer = ledger._writer
    assert writer is not None
    writer._connection.execute("PRAGMA query_only = 1")
    with pytest.raises(Unavailable):
        await within(ledger.check())
    await ledger.close()
