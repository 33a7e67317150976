"""SIGSTOP of a process, and SIGCONT after a while: its connections stay open, and nothing answers."""

import asyncio

from hivemem_testing.process import ProcessServer


async def freeze(server: ProcessServer, seconds: float) -> None:
    await asyncio.to_thread(server.pause)
    try:
        await asyncio.sleep(seconds)
    finally:
        server.resume()
