"""Handlers that record the messages they get, and the workers that run them."""

import asyncio
from collections.abc import Callable, Sequence

from hivemem_runtime.bus.reactions.consumers import Reactions
from hivemem_runtime.bus.reactions.runner import Reaction, ReceivedChange


class Recorder:
    """A handler that records what it handled, and fails as the test says."""

    def __init__(self) -> None:
        self.handled: list[tuple[str, int]] = []
        self.batches: list[int] = []
        self.calls = 0
        self.fail: Callable[[ReceivedChange], Exception | None] = lambda received: None
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self, received: Sequence[ReceivedChange]) -> None:
        self.calls += 1
        await self.gate.wait()
        for each in received:
            error = self.fail(each)
            if error is not None:
                raise error
        self.batches.append(len(received))
        self.handled += [(each.change.namespace, each.change.version) for each in received]


class Workers:
    """The reactions of one or more workers; running ones are stopped at the end."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._running: list[Reactions] = []

    async def start(self, *handled: Reaction) -> Reactions:
        worker = Reactions(self._url, "items")
        for reaction in handled:
            worker.add(reaction)
        await worker.start()
        self._running.append(worker)
        return worker

    async def stop(self, worker: Reactions) -> None:
        self._running.remove(worker)
        await worker.stop()

    async def stop_all(self) -> None:
        for worker in list(self._running):
            await self.stop(worker)
