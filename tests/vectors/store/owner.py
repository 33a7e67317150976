"""A program that opens a vector store in files, prints the process id of its engine, and waits to be killed."""

import asyncio
import sys
from pathlib import Path

from hivemem_vectors.stores.edge.store import EdgeVectors


async def main(folder: Path) -> None:
    store = EdgeVectors(folder)
    await store.check()
    sys.stdout.write(f"{store.pid}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


asyncio.run(main(Path(sys.argv[1])))
