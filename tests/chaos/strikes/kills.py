"""kill -9 of a process, which is started again on its data after a while."""

import asyncio

from hivemem_testing.process import ProcessServer, ServerFailedError


async def kill(server: ProcessServer, down_seconds: float) -> list[str]:
    """Return the errors of its start. A failed start is tried once more."""
    await asyncio.to_thread(server.kill)
    await asyncio.sleep(down_seconds)
    try:
        await asyncio.to_thread(server.start)
    except ServerFailedError as error:
        await asyncio.to_thread(server.start)
        return [str(error)]
    return []
