"""A few threads in which a model runs, beside the event loop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

from hivemem_contracts.errors import Unavailable

ParamsT = ParamSpec("ParamsT")
ResultT = TypeVar("ResultT")


class ModelThreads:
    """Runs calls side by side, as many at once as it has threads; the others wait their turn. Who gives up waiting
    leaves a call that has begun to its end, and one that has not is taken back."""

    def __init__(self, count: int) -> None:
        self._executor = ThreadPoolExecutor(count, thread_name_prefix="hivemem-embedder")

    async def run(self, call: Callable[ParamsT, ResultT], /, *args: ParamsT.args, **kwargs: ParamsT.kwargs) -> ResultT:
        try:
            job = self._executor.submit(partial(call, *args, **kwargs))
        except RuntimeError as error:
            raise Unavailable("the embedder is closed", retry_after_ms=1_000) from error
        return await asyncio.wrap_future(job)

    async def close(self) -> None:
        """Wait for what runs, drop what waits, and end the threads."""
        await asyncio.to_thread(partial(self._executor.shutdown, cancel_futures=True))
