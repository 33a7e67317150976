"""A model that is loaded on its first use, and a few threads in which it runs, beside the event loop."""

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Final, Generic, ParamSpec, TypeVar

from hivemem_contracts.errors import Unavailable

ModelT = TypeVar("ModelT")
ParamsT = ParamSpec("ParamsT")
ResultT = TypeVar("ResultT")

NICE: Final = 5
LOADING_RETRY_MS: Final = 30_000


class ThreadedModel(Generic[ModelT]):
    """Runs calls in a few threads, the others wait. A caller that is cancelled takes back a call that has not begun.

    A call that somebody waits for has a thread of its own with normal priority, so that a question need not wait for a
    batch of texts.
    """

    def __init__(self, open_model: Callable[[], ModelT], needs: str, *, threads: int) -> None:
        """`open_model` loads the model; an error says what that `needs`."""
        self._open_model = open_model
        self._needs = needs
        self._opening = threading.Lock()
        self._opened: ModelT | None = None
        self._batches = ThreadPoolExecutor(threads, thread_name_prefix="hivemem-embedder", initializer=_step_back)
        self._questions = ThreadPoolExecutor(1, thread_name_prefix="hivemem-question")

    async def load(self) -> None:
        """Load the model now, so that the first call need not wait for it."""
        await self.run(self.opened)

    def opened(self) -> ModelT:
        """Return the model; this blocks until it is loaded."""
        with self._opening:
            if self._opened is None:
                try:
                    self._opened = self._open_model()
                except Exception as error:  # of many kinds: the files, the runtime, a hub
                    raise Unavailable(f"{self._needs}: {error}", retry_after_ms=LOADING_RETRY_MS) from error
            return self._opened

    async def run(self, call: Callable[ParamsT, ResultT], /, *args: ParamsT.args, **kwargs: ParamsT.kwargs) -> ResultT:
        return await _run(self._batches, partial(call, *args, **kwargs))

    async def run_soon(
        self, call: Callable[ParamsT, ResultT], /, *args: ParamsT.args, **kwargs: ParamsT.kwargs
    ) -> ResultT:
        """Run a short call that somebody waits for."""
        return await _run(self._questions, partial(call, *args, **kwargs))

    async def close(self) -> None:
        """Wait for running calls, drop queued ones, end the threads, and forget the model."""
        for executor in (self._questions, self._batches):
            await asyncio.to_thread(partial(executor.shutdown, cancel_futures=True))
        self._opened = None


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
