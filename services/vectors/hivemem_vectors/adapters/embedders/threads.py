"""A few threads in which a model runs, beside the event loop."""

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Final, ParamSpec, TypeVar

from hivemem_contracts.errors import Unavailable

ParamsT = ParamSpec("ParamsT")
ResultT = TypeVar("ResultT")

NICE: Final = 5


class ModelThreads:
    """Runs calls side by side, as many at once as it has threads; the others wait their turn. Who gives up waiting
    leaves a call that has begun to its end, and one that has not is taken back."""

    def __init__(self, count: int) -> None:
        self._executor = ThreadPoolExecutor(count, thread_name_prefix="hivemem-embedder", initializer=_step_back)

    async def run(self, call: Callable[ParamsT, ResultT], /, *args: ParamsT.args, **kwargs: ParamsT.kwargs) -> ResultT:
        try:
            job = self._executor.submit(partial(call, *args, **kwargs))
        except RuntimeError as error:
            raise Unavailable("the embedder is closed", retry_after_ms=1_000) from error
        return await asyncio.wrap_future(job)

    async def close(self) -> None:
        """Wait for what runs, drop what waits, and end the threads."""
        await asyncio.to_thread(partial(self._executor.shutdown, cancel_futures=True))


def _step_back() -> None:
    """A model computes for as long as there is anything to embed: where the processor is short, whoever writes or asks
    goes first. Only Linux gives each thread a priority of its own."""
    if sys.platform == "linux":
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
