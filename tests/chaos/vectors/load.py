"""The load: memories that are written, changed, deleted and erased, each by one writer, with words of their own."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from nats.aio.client import Client

from ..asking import Refused
from ..memory.journal import Journal
from ..memory.writing import Writer, memory

WRITERS: Final = 10
KEYS: Final = 4
_SUBJECTS: Final = (
    "the harbour",
    "a garden",
    "her telescope",
    "the old railway",
    "his accordion",
    "a recipe for bread",
)


def namespace_of(writer: str) -> str:
    return f"user:{writer}:notes"


async def write_and_forget(
    clients: Sequence[Client], journal: Journal, seed: int, stopping: Callable[[], bool]
) -> None:
    writers = [Writer(f"w{number}", clients, journal, seed, stopping) for number in range(WRITERS)]
    await asyncio.gather(*map(_until_refused, writers))


async def _until_refused(writer: Writer) -> None:
    try:
        await _write(writer)
    except Refused as error:
        writer.journal.findings.append(f"writer {writer.name}: refused: {error}")


async def _write(writer: Writer) -> None:
    living: set[str] = set()
    namespace = namespace_of(writer.name)
    while not writer.stopping():
        key = f"k{writer.choice.randrange(KEYS)}"
        chance = writer.choice.random()
        if key in living and chance < 0.1:
            await writer.write("delete", memory(namespace, key), repeats=False)
            living.remove(key)
        elif key in living and chance < 0.15:
            id = writer.next_id()
            await writer.asking.request("erase", memory(namespace, key), id)
            living.remove(key)
        elif key in living and chance < 0.3:
            # The text is the same, so nothing is embedded, but the new version must still be found.
            await writer.write(
                "put", memory(namespace, key, value=_newest(writer, key), importance=chance), repeats=False
            )
        else:
            await writer.write("put", memory(namespace, key, value=_text(writer)), repeats=False)
            living.add(key)


def _text(writer: Writer) -> str:
    subject = _SUBJECTS[writer.number % len(_SUBJECTS)]
    return f"What {writer.name} noted about {subject}, mark {writer.name}x{writer.number + 1}"


def _newest(writer: Writer, key: str) -> Any:
    return next(
        sent.body["value"]
        for sent in reversed(writer.journal.sent)
        if sent.writer == writer.name and sent.body["key"] == key and "value" in sent.body
    )
