"""The load: files of random bytes, one writer per name, and now and then a save is repeated."""

import asyncio
import random
from base64 import b64encode
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any, Final

from nats.aio.client import Client

from ..asking import Asking, Refused
from ..journal import Journal, Sent

WRITERS: Final = 6
NAMES: Final = ("a.bin", "folder/b.bin")
SESSION: Final = "files"
LARGEST_BYTES: Final = 40_000
_REPEATED: Final = 0.1
_SAME_BYTES: Final = 0.2
"""The share of saves whose bytes another writer saves as well; such bytes are stored once."""
_THINK_SECONDS: Final = 0.004


async def save_files(clients: Sequence[Client], journal: Journal, seed: int, stopping: Callable[[], bool]) -> None:
    await asyncio.gather(*(_save_files(number, clients, journal, seed, stopping) for number in range(WRITERS)))


async def _save_files(
    number: int, clients: Sequence[Client], journal: Journal, seed: int, stopping: Callable[[], bool]
) -> None:
    asking = Asking(clients[number % len(clients)], "artifacts")
    choice = random.Random(f"{seed}/files{number}")
    saves = 0
    while not stopping():
        saves += 1
        name = f"w{number}/{choice.choice(NAMES)}"
        data = (
            b"the same" * 1_000 if choice.random() < _SAME_BYTES else choice.randbytes(choice.randrange(LARGEST_BYTES))
        )
        body = {"session_id": SESSION, "name": name, "data_base64": b64encode(data).decode()}
        sent = Sent(
            f"w{number}-{saves}", "save", name, f"w{number}", saves, {**body, "sha256": sha256(data).hexdigest()}
        )
        journal.sent.append(sent)
        try:
            sent.answer = await asking.request("save", sent.body, sent.id)
            if choice.random() < _REPEATED:
                await _repeat(asking, journal, sent)
        except Refused as error:
            journal.findings.append(f"{name}: refused: {error}")
            return
        await asyncio.sleep(_THINK_SECONDS)


async def _repeat(asking: Asking, journal: Journal, sent: Sent) -> None:
    again: dict[str, Any] = await asking.request("save", sent.body, sent.id)
    journal.repeated += 1
    if again != sent.answer:
        journal.findings.append(f"{sent.place}: {sent.id} was answered {sent.answer} and, sent again, {again}")
