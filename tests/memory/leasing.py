"""Leases as tests use them: the name of a lease, and the queue of waiting requests in a worker."""

import asyncio
from dataclasses import dataclass
from typing import Any

from hivemem_memory.endpoints.lease_queues import LeaseQueues
from hivemem_memory.entities.leases import LEASE, Lease
from hivemem_runtime.ledger.places import place_of
from hivemem_runtime.worker import Parts, Worker

from .hive import Agent, Body, Refused, eventually

ROME = "project:rome"
LONG_MS = 3_600_000
WAIT_MS = 14_000


@dataclass
class Place:
    """A lease as one agent of a tenant sees it."""

    agent: Agent
    key: str | None = None

    @property
    def named(self) -> Body:
        return {"namespace": ROME} | ({} if self.key is None else {"key": self.key})

    async def acquire(self, *, id: str | None = None, ttl_ms: int = LONG_MS, wait_ms: int = 0) -> Body:
        return await self.agent.ask("lease", self.named, id=id, ttl_ms=ttl_ms, wait_ms=wait_ms)

    async def release(self, token: int, *, id: str | None = None) -> bool:
        return bool((await self.agent.ask("release", self.named, id=id, token=token))["released"])

    async def refusal(self, operation: str = "lease", **fields: Any) -> Refused:
        return await self.agent.refusal(operation, {**self.named, **fields})

    async def lease(self) -> Lease:
        head = await self.agent.ledger.head(LEASE, self.agent.tenant, place_of(ROME, self.key))
        assert head is not None
        assert head.value is not None
        return head.value

    async def waited_for_by(self, count: int) -> None:
        async def queued() -> bool:
            return len((await self.lease()).waiters) == count

        await eventually(queued, f"{count} in the queue")

    def waits(
        self, name: str = "waiter", *, id: str | None = None, ttl_ms: int = LONG_MS, wait_ms: int = WAIT_MS
    ) -> "asyncio.Task[Body]":
        """Let another agent wait for the lease from now on."""
        other = Place(self.agent.called(name), self.key)
        return asyncio.create_task(other.acquire(id=id, ttl_ms=ttl_ms, wait_ms=wait_ms))


def parts_of(worker: Worker) -> Parts:
    return worker._parts  # pyright: ignore[reportPrivateUsage]  # nothing but a test wants them


def waiting_in(worker: Worker) -> LeaseQueues:
    return next(part for part in parts_of(worker).background if isinstance(part, LeaseQueues))
