"""A thread with an event loop, which carries out the calls of a synchronous client."""

import asyncio
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final, TypeVar

from hivemem.connection import ClientClosed

ResultT = TypeVar("ResultT")
CLOSING_SECONDS: Final = 5.0
"""How long a program that ends waits for a server that no longer answers."""

Closing = Callable[[], Coroutine[Any, Any, None]]


class LoopThread:
    """Starts at its first call, so that a client made before a fork works after it. `closing` runs at its end, which is
    `stop`, the end of the program, or that of the client."""

    def __init__(self, closing: Closing) -> None:
        self._closing = closing
        # Reentrant, because the collector may close an iterator in the middle of anything.
        self._lock = threading.RLock()
        self._running: _RunningLoop | None = None
        self._stopped = False

    def run(self, coroutine: Coroutine[Any, Any, ResultT]) -> ResultT:
        """Return the result of a coroutine. An interrupted caller, as by Ctrl-C, cancels it and waits for its end.

        Raises `ClientClosed` after the end, and `RuntimeError` where waiting would never end: in the thread itself, and
        in a process that was forked after the first call.
        """
        try:
            running = self._started()
            running.refuse_endless_waiting()
        except RuntimeError:
            coroutine.close()
            raise
        return running.run(coroutine)

    @property
    def is_current(self) -> bool:
        """Whether the caller is this thread."""
        return self._running is not None and self._running.is_current

    def stop(self) -> None:
        """Run `closing`, cancel all calls, and end the thread."""
        with self._lock:
            running, self._stopped = self._running, True
        if running is not None:
            running.stop()

    def _started(self) -> "_RunningLoop":
        with self._lock:
            if self._stopped:
                raise ClientClosed
            if self._running is None:
                self._running = _RunningLoop(self._closing)
                weakref.finalize(self, self._running.stop)
            return self._running


class _RunningLoop:
    def __init__(self, closing: Closing) -> None:
        self._closing = closing
        self._loop = asyncio.new_event_loop()
        self._ending = asyncio.Event()
        self._ended = False
        self._calls: dict[Future[Any], Coroutine[Any, Any, Any]] = {}
        self._thread = threading.Thread(target=self._serve, name="hivemem", daemon=True)
        self._thread.start()

    @property
    def is_current(self) -> bool:
        return threading.current_thread() is self._thread

    def refuse_endless_waiting(self) -> None:
        if self.is_current:
            raise RuntimeError("a callback cannot use the synchronous client that waits for the callback")
        if not self._thread.is_alive() and not self._ended:
            raise RuntimeError("this client was used before the process was forked: make one after the fork")

    def run(self, coroutine: Coroutine[Any, Any, ResultT]) -> ResultT:
        outcome: Future[ResultT] = Future()
        tasks: list[asyncio.Task[ResultT]] = []

        def start() -> None:
            if not self._ended:
                task = self._loop.create_task(coroutine)
                task.add_done_callback(lambda task: self._settle(task, outcome))
                tasks.append(task)

        self._calls[outcome] = coroutine
        if not self._call(start):
            del self._calls[outcome]
            coroutine.close()
            raise ClientClosed
        try:
            return outcome.result()
        except BaseException:
            if not outcome.done():
                self._call(lambda: tasks[0].cancel() if tasks else False)
                outcome.exception()
            raise

    def stop(self) -> None:
        self._call(self._ending.set)
        if not self.is_current:
            self._thread.join()

    def _call(self, function: Callable[[], object]) -> bool:
        """Call a function in the thread, and return False if the loop has ended."""
        try:
            self._loop.call_soon_threadsafe(function)
        except RuntimeError:
            return False
        return True

    def _settle(self, task: "asyncio.Task[ResultT]", outcome: "Future[ResultT]") -> None:
        del self._calls[outcome]
        error = ClientClosed() if task.cancelled() else task.exception()
        if error is None:
            outcome.set_result(task.result())
        else:
            outcome.set_exception(error)

    def _serve(self) -> None:
        # Unlike `asyncio.run`, this starts no thread at its end, which a program that ends does not allow.
        try:
            self._loop.run_until_complete(self._until_stopped())
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()
            for outcome, coroutine in tuple(self._calls.items()):
                coroutine.close()
                outcome.set_exception(ClientClosed())

    async def _until_stopped(self) -> None:
        await self._ending.wait()
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._closing(), CLOSING_SECONDS)
        finally:
            self._ended = True
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
