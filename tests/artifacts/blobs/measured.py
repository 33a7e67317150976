"""A program that uploads and reads a large file, and prints how many more bytes of memory it takes than a small one.

It takes the arguments of `backends.opened`.
"""

import asyncio
import resource
import sys
from typing import Final

from hivemem_artifacts.ports import BlobStore

from .backends import opened
from .content import TENANT

CHUNK: Final = bytes(range(256)) * 4_000
LITTLE: Final = 1
MUCH: Final = 160


async def measure(arguments: tuple[str, ...]) -> int:
    store = opened(arguments)
    await store.check()
    await there_and_back(store, LITTLE)
    before = most_memory()
    await there_and_back(store, MUCH)
    await store.close()
    return most_memory() - before


async def there_and_back(store: BlobStore, chunks: int) -> None:
    upload_id = f"upload-{chunks}"
    staging = await store.open_staging(upload_id)
    for _ in range(chunks // 2):
        await staging.append(CHUNK)
    await staging.close()
    staging = await store.open_staging(upload_id)
    while staging.size < chunks * len(CHUNK):
        await staging.append(CHUNK)
    await staging.seal(TENANT, staging.sha256)
    await staging.close()
    for number in range(chunks):
        assert await store.read(TENANT, staging.sha256, number * len(CHUNK), len(CHUNK)) == CHUNK
    await store.discard(upload_id)
    await store.delete(TENANT, staging.sha256)


def most_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    sys.stdout.write(str(asyncio.run(measure(tuple(sys.argv[1:])))))
