"""A bounded pool of threads for calls that block."""

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
    """Runs calls side by side, as many at once as it has threads; the others wait their turn."""

    def __init__(self, name: str, count: int) -> None:
        self._made = partial(ThreadPoolExecutor, count, thread_name_prefix=name)
        self._executor = self._made()

    async def run(self, call: Callable[ParamsT, ResultT], /, *args: ParamsT.args, **kwargs: ParamsT.kwargs) -> ResultT:
        """What the call returns or raises. A caller that is cancelled still waits for its end: what a call works on
        is never touched by the next one while it runs."""
        job = self._executor.submit(partial(call, *args, **kwargs))
        running = asyncio.wrap_future(job)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            if not job.cancel():
                await asyncio.wait([running])
                running.exception()  # else nobody would have asked for it, and asyncio would say so
            raise

    async def pages(self, items: Generator[ItemT, None, None]) -> AsyncIterator[ItemT]:
        """The items of a generator that blocks, some at a time."""
        try:
            while page := await self.run(list, islice(items, _PAGE)):
                for item in page:
                    yield item
        finally:
            await self.run(items.close)

    async def close(self) -> None:
        """Wait for what runs, and end the threads. Whoever comes later gets others: a worker may start again."""
        ended, self._executor = self._executor, self._made()
        await asyncio.to_thread(ended.shutdown)
