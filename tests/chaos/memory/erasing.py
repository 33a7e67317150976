"""A load of namespaces that are written, erased, written again and erased again."""

import asyncio
from typing import Any, Final

from ..asking import PATIENCE_SECONDS, Refused
from .journal import Erased
from .writing import Writer, memory

LIVES: Final = 2
_ERASING_SECONDS: Final = 3.0
"""Longer than a worker waits for an erasure before it answers with its progress."""
_POLL_SECONDS: Final = 0.05
_KEYS: Final = ("a", "b")


async def live_and_die(writer: Writer) -> None:
    """Write and erase a namespace again and again. Each life puts the same keys, one of them twice, one in a namespace
    below, and publishes a command that the erasure may overtake."""
    life = 0
    while not writer.stopping():
        life += 1
        namespace = f"project:{writer.name}-{life}"
        for number in range(LIVES):
            await _live(writer, namespace, number)
            late = await writer.publish("put", memory(namespace, "late", value=writer.value()), repeats=False)
            writer.journal.late.add(late.id)
            await erase(writer, namespace, (len(_KEYS) + 1, len(_KEYS) + 2), (len(_KEYS) + 2, len(_KEYS) + 3))
            await _expect_nothing(writer, namespace)
        if life % 2:
            await _live(writer, namespace, LIVES)


async def _live(writer: Writer, namespace: str, lives: int) -> None:
    """Put the keys. Their versions continue after the versions and erasures of earlier lives."""
    for key, expected in [("a", 3 * lives + 1), ("a", 3 * lives + 2), ("b", 2 * lives + 1)]:
        await _put(writer, namespace, key, expected)
    await _put(writer, f"{namespace}:below", "a", 2 * lives + 1)


async def _put(writer: Writer, namespace: str, key: str, expected: int) -> None:
    answer = await writer.write("put", memory(namespace, key, value=writer.value()), repeats=False)
    if answer["version"] != expected:
        writer.journal.findings.append(f"{namespace} {key}: version {answer['version']}, {expected} was expected")


async def erase(writer: Writer, namespace: str, entries: tuple[int, int], versions: tuple[int, int]) -> None:
    """Request the erasure until it is done."""
    id = writer.next_id()
    loop = asyncio.get_running_loop()
    deadline = loop.time() + PATIENCE_SECONDS
    receipt = await writer.asking.request("erase", {"namespace": namespace}, id, seconds=_ERASING_SECONDS)
    while receipt["status"] != "done":
        if loop.time() > deadline:
            writer.journal.findings.append(f"{namespace}: erasure {id} is never done: {receipt}")
            return
        await asyncio.sleep(_POLL_SECONDS)
        receipt = await writer.asking.request("erasure", {"receipt": receipt["receipt"]})
    writer.journal.erased.append(Erased(id, receipt["receipt"], namespace, entries, versions))


async def _expect_nothing(writer: Writer, namespace: str) -> None:
    for name, key in [(namespace, "a"), (namespace, "b"), (namespace, "late"), (f"{namespace}:below", "a")]:
        found: dict[str, Any] | None = None
        try:
            found = await writer.asking.request("get", memory(name, key, include_deleted=True))
        except Refused as refused:
            if refused.name != "NotFound":
                raise
        if found is not None:
            writer.journal.findings.append(f"{name} {key}: version {found['version']} is there after its erasure")
