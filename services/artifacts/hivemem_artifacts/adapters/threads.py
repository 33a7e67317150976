"""A bounded thread pool for blocking calls."""

import asyncio
from collections.abc import AsyncIterator, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import Final, ParamSpec, TypeVar

_PAGE: Final = 1_000

ParamsT = ParamSpec("ParamsT")
ResultT = TypeVar("ResultT")
ItemT = TypeVar("ItemT")


class Threads:
    """Runs blocking calls in parallel, up to the number of threads."""

    def __init__(self, name: str, count: int) -> None:
        self._made = partial(ThreadPoolExecutor, count, thread_name_prefix=name)
        self._executor = self._made()

    async def run(self, call: Callable[ParamsT, ResultT], /, *args: ParamsT.args, **kwargs: ParamsT.kwargs) -> ResultT:
        """Run a call in a thread and return its result. A cancelled caller waits for the end of the call, so that
        the next call cannot run at the same time."""
        job = self._executor.submit(partial(call, *args, **kwargs))
        running = asyncio.wrap_future(job)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            if not job.cancel():
                await asyncio.wait([running])
                running.exception()  # retrieves the error, which asyncio would otherwise log
            raise

    async def pages(self, items: Generator[ItemT, None, None]) -> AsyncIterator[ItemT]:
        """Yield the items of a blocking generator, read in pages."""
        try:
            while page := await self.run(list, islice(items, _PAGE)):
                for item in page:
                    yield item
        finally:
            await self.run(items.close)

    async def close(self) -> None:
        """Wait for running calls and end the threads. A later call starts new threads, because a worker may start
        again."""
        ended, self._executor = self._executor, self._made()
        await asyncio.to_thread(ended.shutdown)
