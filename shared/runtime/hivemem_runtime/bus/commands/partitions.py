"""Durable commands in order, by elastic workers: each partition of a service has one consumer, pinned to one worker."""

import asyncio
from contextlib import suppress
from functools import partial
from typing import Any, Final

from nats.aio.client import Client

from hivemem_runtime.bus.commands.crash_counts import CrashCounts
from hivemem_runtime.bus.commands.members import Members
from hivemem_runtime.bus.commands.partition import Partition
from hivemem_runtime.bus.commands.pinned_consumer import PullSettings
from hivemem_runtime.bus.delivery import Handle
from hivemem_runtime.clock import elapsed_seconds
from hivemem_runtime.loops import Loop

LOOK_SECONDS: Final = 1.5
SILENT_SECONDS: Final = 6.0
"""Without an answer of JetStream for that long, what waits is unknown, which is trouble."""


class Partitions:
    """All partitions of a service; `handle` gets each one's messages in order, several partitions at a time."""

    def __init__(
        self,
        client: Client,
        service: str,
        handle: Handle,
        *,
        partitions: int,
        settings: PullSettings | None = None,
        members: Members | None = None,
    ) -> None:
        self._client = client
        self.members = members or Members(client, service)
        pulling = settings or PullSettings()
        self._partitions = [
            Partition(
                client,
                service,
                number,
                mine=partial(self.members.owns, number, partitions),
                handle=handle,
                settings=pulling,
                crashes=CrashCounts(client, f"{service}-p{number}", self.members, probation=pulling.batch),
            )
            for number in range(partitions)
        ]
        self._loops = [Loop(partition.consumer, partition.run) for partition in self._partitions]
        self._looking = Loop(f"{service}-partitions", self._keep_looking)
        self._looked_at = elapsed_seconds()

    async def start(self) -> None:
        """Raises `Unavailable` if the consumers cannot be declared or the others cannot be heard."""
        for partition in self._partitions:
            await partition.declare()
        self.members.on_change(self._wake)
        for loop in self._loops:
            loop.start()
        try:
            await self.members.start()
        except BaseException:
            await self.stop()
            raise
        self._looked_at = elapsed_seconds()
        self._looking.start()

    async def stop(self, timeout_seconds: float = 10.0) -> None:
        """Leave, and finish what was taken; what takes longer than the time given is left to the next owner."""
        await self._looking.stop()
        for partition, loop in zip(self._partitions, self._loops, strict=True):
            loop.stopping.set()
            partition.stop()
        leaving = asyncio.create_task(self.members.leave())
        await asyncio.gather(*(loop.stop(timeout_seconds) for loop in self._loops))
        await leaving

    def _wake(self) -> None:
        for partition in self._partitions:
            partition.wake()

    async def _keep_looking(self) -> None:
        while not self._looking.stopping.is_set():
            await self._look()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._looking.stopping.wait(), LOOK_SECONDS)

    async def _look(self) -> None:
        await asyncio.gather(*(partition.look() for partition in self._partitions))
        if all(partition.progress.lag is not None for partition in self._partitions):
            self._looked_at = elapsed_seconds()

    async def status(self) -> dict[str, Any]:
        """As `health`, with JetStream asked what waits now."""
        await self._look()
        return self.health()

    def health(self) -> dict[str, Any]:
        """What this worker holds, and what waits in each partition, whoever holds it, as of the last look."""
        members = self.members.status()
        found: dict[str, Any] = {
            "members": members,
            "owned": [partition.number for partition in self._partitions if partition.mine()],
            "pinned": [partition.number for partition in self._partitions if partition.pinned],
            "lag": {partition.consumer: partition.progress.lag for partition in self._partitions},
            "settled": sum(partition.settled for partition in self._partitions),
            "failing": {partition.consumer: partition.failures for partition in self._partitions if partition.failures},
        }
        trouble = self._trouble(members)
        return found | {"trouble": trouble} if trouble else found

    def _trouble(self, members: dict[str, Any]) -> str | None:
        ended = next((loop.trouble for loop in (*self._loops, self._looking) if loop.trouble), None)
        if ended or members.get("trouble"):
            return ended or str(members["trouble"])
        for partition in self._partitions:
            if partition.progress.trouble:
                return f"{partition.consumer}: {partition.progress.trouble}"
        silent = elapsed_seconds() - self._looked_at
        return f"JetStream has not told for {silent:.0f} s what waits" if silent > SILENT_SECONDS else None
