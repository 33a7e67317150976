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
    """Runs calls in `count` threads, the others wait. A caller that is cancelled takes back a call that has not begun.

    A call that somebody waits for has a thread of its own with normal priority, so that a question need not wait for a
    batch of texts.
    """

    def __init__(self, count: int) -> None:
        self._batches = ThreadPoolExecutor(count, thread_name_prefix="hivemem-embedder", initializer=_step_back)
        self._questions = ThreadPoolExecutor(1, thread_name_prefix="hivemem-question")

    async def run(self, call: Callable[ParamsT, ResultT], /, *args: ParamsT.args, **kwargs: ParamsT.kwargs) -> ResultT:
        return await _run(self._batches, partial(call, *args, **kwargs))

    async def run_soon(
        self, call: Callable[ParamsT, ResultT], /, *args: ParamsT.args, **kwargs: ParamsT.kwargs
    ) -> ResultT:
        """Run a short call that somebody waits for."""
        return await _run(self._questions, partial(call, *args, **kwargs))

    async def close(self) -> None:
        """Wait for running calls, drop queued ones, and end the threads."""
        for executor in (self._questions, self._batches):
            await asyncio.to_thread(partial(executor.shutdown, cancel_futures=True))


async def _run(executor: ThreadPoolExecutor, call: Callable[[], ResultT]) -> ResultT:
    try:
        job = executor.submit(call)
    except RuntimeError as error:
        raise Unavailable("the embedder is closed", retry_after_ms=1_000) from error
    return await asyncio.wrap_future(job)


def _step_back() -> None:
    """Lower the priority of this thread, so that writers and readers come first. Only Linux has them for threads."""
    if sys.platform == "linux":
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
