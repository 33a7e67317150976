"""Damage that a power cut or a bad disk leaves in the folder of a stopped fleet."""

import os
import shutil
import struct
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Final, Literal, NamedTuple

from hivemem_contracts.streams import CHANGES

Ledger = Literal["sessions", "memory"]

_HEADER: Final = struct.Struct("<IQ")
"""The beginning of each record of a block: its length and its sequence."""
_LENGTH_BITS: Final = 0x7FFF_FFFF
_MOST_TRUNCATED_BITS: Final = 17
"""A truncation cuts up to 2 to the power of this many bytes, and small cuts are as likely as large ones."""
_BIT: Final = 0x10


class Record(NamedTuple):
    offset: int
    length: int
    sequence: int


class Folder:
    """The files that `hivemem up` keeps below `--data`."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.jetstream = data / "nats" / "jetstream"

    @property
    def changes(self) -> Path:
        return self.jetstream / "jetstream" / "$G" / "streams" / CHANGES

    def blocks(self) -> list[Path]:
        return sorted((self.changes / "msgs").glob("*.blk"), key=lambda block: int(block.stem))

    def ledger(self, ledger: Ledger) -> list[Path]:
        """Return the files of the ledger, without the shared memory file, which SQLite recreates."""
        return [self.data / f"{ledger}.db", self.data / f"{ledger}.db-wal"]


def copy_folder(source: Path, target: Path) -> None:
    """Copy each file as it is at that moment; a server may be writing, and files may disappear."""
    shutil.rmtree(target, ignore_errors=True)
    for file in source.rglob("*"):
        place = target / file.relative_to(source)
        with suppress(FileNotFoundError):
            if file.is_dir():
                place.mkdir(parents=True, exist_ok=True)
            else:
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(file, place)


def copy_files(files: Iterable[Path], target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for file in files:
        if file.exists():
            shutil.copy2(file, target)


def put_back_jetstream(folder: Folder, copy: Path) -> str:
    shutil.rmtree(folder.jetstream)
    copy_folder(copy, folder.jetstream)
    return "JetStream's folder put back"


def put_back_ledger(folder: Folder, ledger: Ledger, copy: Path) -> str:
    for suffix in ("", "-wal", "-shm"):
        (folder.data / f"{ledger}.db{suffix}").unlink(missing_ok=True)
    for file in copy.iterdir():
        shutil.copy2(file, folder.data)
    return f"{ledger}.db put back"


def delete_changes(folder: Folder) -> str:
    shutil.rmtree(folder.changes)
    return "the folder of CHANGES deleted"


def delete_jetstream(folder: Folder) -> str:
    shutil.rmtree(folder.jetstream)
    return "JetStream's folder deleted"


def truncate_block(folder: Folder, choice: Random) -> str:
    block = _a_block(folder, choice)
    size = block.stat().st_size
    by = min(int(2 ** choice.uniform(0, _MOST_TRUNCATED_BITS)), size)
    os.truncate(block, size - by)
    return f"{block.name} of {size} bytes truncated by {by}"


def flip_in_block(folder: Folder, choice: Random) -> str:
    """Flip a bit in the first, a middle, any, or the last record of a block: in its payload, length, or checksum."""
    block = _a_block(folder, choice)
    found = records(block)
    record = found[choice.choice([0, len(found) // 2, choice.randrange(len(found)), len(found) - 1])]
    part, offset = choice.choice([("payload", record.length // 2), ("length", 1), ("checksum", record.length - 3)])
    _flip(block, record.offset + offset)
    return (
        f"a bit flipped in the {part} of sequence {record.sequence} in {block.name}, which ends at {found[-1].sequence}"
    )


def flip_in_index(folder: Folder, choice: Random) -> str:
    index = folder.changes / "msgs" / "index.db"
    if not index.exists():
        return "no index.db is there"
    _flip(index, choice.randrange(index.stat().st_size))
    return "a bit flipped in index.db"


def records(block: Path) -> list[Record]:
    data = block.read_bytes()
    found: list[Record] = []
    offset = 0
    while offset + _HEADER.size <= len(data):
        length, sequence = _HEADER.unpack_from(data, offset)
        found.append(Record(offset, length & _LENGTH_BITS, sequence))
        if not found[-1].length:
            break
        offset += found[-1].length
    return found


def _a_block(folder: Folder, choice: Random) -> Path:
    """Choose the last block as often as all others together. A block without records cannot be damaged."""
    blocks = [block for block in folder.blocks() if block.stat().st_size]
    return blocks[-1] if choice.random() < 0.5 else choice.choice(blocks)


def _flip(file: Path, offset: int) -> None:
    data = bytearray(file.read_bytes())
    data[offset] ^= _BIT
    file.write_bytes(data)
