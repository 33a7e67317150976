"""A program that plays a script of store calls and kills itself right before one of their steps.

It runs as a module, with the arguments of `backends.opened`. For each input line, `SCRIPT STEP`, a fork of it plays the
script and kills itself before that step. The output has the steps that were acknowledged, then `killed`, or `whole` if
the script has no such step.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import Any, Final

import urllib3

from hivemem_artifacts.ports import BlobStore, ShownFile

from .backends import opened
from .content import TENANT, UPLOAD, digest, some_bytes, staged

SYSTEM_CALLS: Final = ("mkdir", "link", "rename", "unlink", "rmdir", "fsync", "pwrite", "ftruncate", "utime")
AT: Final = 1_767_225_599_000_001
SMALL: Final = b"small bytes"
LARGE: Final = some_bytes(9_000_000, 7)
FIRST_BYTES: Final = 8_500_000


def acknowledge(what: object) -> None:
    os.write(1, f"{what}\n".encode())


async def putting(store: BlobStore) -> None:
    await store.put(TENANT, digest(SMALL), SMALL)
    acknowledge("put")


async def uploading(store: BlobStore) -> None:
    """The staging is closed and opened again halfway, as when one worker ends and another takes over."""
    staging = await staged(store, LARGE[:FIRST_BYTES])
    acknowledge(staging.durable)
    await staging.flush()
    acknowledge(staging.durable)
    await staging.close()
    staging = await store.open_staging(UPLOAD)
    await staging.append(LARGE[FIRST_BYTES:])
    await staging.seal(TENANT, digest(LARGE))
    acknowledge("sealed")
    await staging.close()
    await store.discard(UPLOAD)
    acknowledge("discarded")


async def showing(store: BlobStore) -> None:
    blob = digest(SMALL)
    for count in (1, 2):
        view = await store.open_view(TENANT, "s1")
        await view.add([ShownFile(f"{number}-of-{count}", 1, AT, blob) for number in range(count)], b"[%d" % count)
        await view.add([], b", %d]" % count)
        await view.finish()
        acknowledge(count)
    await store.remove_view(TENANT, "s1")
    acknowledge("removed")


async def deleting(store: BlobStore) -> None:
    await store.delete(TENANT, digest(SMALL))
    acknowledge("deleted")


SCRIPTS: Final[dict[str, Callable[[BlobStore], Awaitable[None]]]] = {
    "putting": putting,
    "uploading": uploading,
    "showing": showing,
    "deleting": deleting,
}


class Killer:
    """Counts the steps and kills this process right before step `last`."""

    def __init__(self, last: int) -> None:
        self.left = last

    def watched(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def watching(*args: Any, **kwargs: Any) -> Any:
            self.left -= 1
            if self.left <= 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*args, **kwargs)

        return watching

    def watch(self) -> None:
        for owner, name in [(urllib3.PoolManager, "urlopen"), *((os, name) for name in SYSTEM_CALLS)]:
            setattr(owner, name, self.watched(getattr(owner, name)))


async def play(script: str, arguments: tuple[str, ...], last: int) -> None:
    store = opened(arguments)
    Killer(last).watch()
    await SCRIPTS[script](store)
    await store.close()


def main() -> None:
    for line in sys.stdin:
        script, step = line.split()
        child = os.fork()
        if child == 0:
            asyncio.run(play(script, tuple(sys.argv[1:]), int(step)))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status) and os.WEXITSTATUS(status):
            sys.exit("the script failed")
        acknowledge("killed" if os.WIFSIGNALED(status) else "whole")


if __name__ == "__main__":
    main()
