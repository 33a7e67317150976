"""Agents hold leases for a block, over crashes and pauses of their processes and outages of workers and servers."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

import hivemem
from hivemem.connection import Connection
from hivemem.hive import Connecting
from hivemem.leases import Lease
from hivemem_memory.entities.leases import LEASE
from hivemem_memory.worker import MemorySettings, build
from hivemem_runtime.ledger.places import place_of
from hivemem_testing.servers import packaged_nats

from .conftest import Deployment
from .hive import Agent, eventually
from .holder_process import NAMESPACE

pytestmark = pytest.mark.asyncio(loop_scope="session")

SECONDS = 30
HOLDER = Path(__file__).with_name("holder_process.py")


def client_of(bot: Agent, name: str, deployment: Deployment, *, attempt_seconds: float = 5.0) -> Connecting:
    url = deployment.settings.nats_url
    return hivemem.connect(url, tenant=bot.tenant, agent=name, attempt_seconds=attempt_seconds)


async def waited_for_by(bot: Agent, count: int) -> None:
    async def queued() -> bool:
        head = await bot.ledger.head(LEASE, bot.tenant, place_of(NAMESPACE))
        return head is not None and head.value is not None and len(head.value.waiters) == count

    await eventually(queued, f"{count} in the queue")


async def within(lease: Lease, work: Callable[[Lease], Awaitable[None]] | None = None) -> Lease:
    async with lease:
        if work is not None:
            await work(lease)
    return lease


class Holder:
    """A process that holds the lease."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def says(self) -> list[str]:
        assert self.process.stdout is not None
        async with asyncio.timeout(SECONDS):
            return (await self.process.stdout.readline()).decode().split()

    async def told(self, line: str) -> list[str]:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n".encode())
        await self.process.stdin.drain()
        return await self.says()


@asynccontextmanager
async def holding(bot: Agent, deployment: Deployment) -> AsyncGenerator[Holder, None]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(HOLDER), deployment.settings.nats_url, bot.tenant, "holder"),
        env={name: value for name, value in os.environ.items() if not name.startswith("HIVEMEM_")},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield Holder(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def test_a_lease_of_a_process_that_was_killed_ends_by_itself(bot: Agent, deployment: Deployment) -> None:
    async with holding(bot, deployment) as holder, client_of(bot, "heir", deployment) as heir:
        assert await holder.says() == ["held", "1"]
        assert await holder.told("first") == ["wrote", "1"]
        holder.process.send_signal(signal.SIGKILL)
        async with heir.lease(NAMESPACE, wait_seconds=SECONDS) as lease:
            assert lease.token == 2
            await heir.memory.put(namespace=NAMESPACE, key="k", value="second", lease=lease.claim)


async def test_a_process_that_was_paused_is_refused_with_its_old_token(bot: Agent, deployment: Deployment) -> None:
    async with holding(bot, deployment) as holder, client_of(bot, "heir", deployment) as heir:
        assert await holder.says() == ["held", "1"]
        holder.process.send_signal(signal.SIGSTOP)
        async with heir.lease(NAMESPACE, wait_seconds=SECONDS) as lease:
            holder.process.send_signal(signal.SIGCONT)
            assert await holder.told("late") == ["refused", "LeaseHeld"]
            await heir.memory.put(namespace=NAMESPACE, key="k", value="mine", lease=lease.claim)
        assert await holder.told("later still") == ["refused", "RevisionConflict"]
        assert holder.process.stdin is not None
        holder.process.stdin.close()
        assert await holder.says() == ["lost", "1"]
        assert (await heir.memory.get(namespace=NAMESPACE, key="k")).value == "mine"


async def test_a_lease_is_renewed_for_as_long_as_its_block_runs(bot: Agent, deployment: Deployment) -> None:
    """The test counts three renewals instead of reading the clock; the first end is long past by then."""
    async with client_of(bot, "holder", deployment) as holder, holder.changes("lease") as feed:
        async with holder.lease(NAMESPACE, ttl_seconds=1) as lease:
            ends = lease.expires_at
            told = [(await anext(feed)).operation for _ in range(5)]
            assert told == ["acquired", "renewed", "renewed", "renewed", "renewed"]
            assert lease.expires_at > ends
            assert lease.claim == hivemem.LeaseClaim(namespace=NAMESPACE, token=1)
            assert not lease.lost.is_set()
        assert (await anext(feed)).operation == "released"


async def test_a_block_ends_even_if_the_cancellation_of_a_renewal_is_lost(
    bot: Agent, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`wait_for` loses a cancellation before Python 3.12 if the answer arrives at the same moment."""
    renewing = asyncio.Event()
    request = Connection.request

    async def requested(connection: Connection, subject: str, *args: Any) -> Msg:
        message = await request(connection, subject, *args)
        if subject.endswith(".renew"):
            renewing.set()
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
        return message

    monkeypatch.setattr(Connection, "request", requested)
    async with (
        client_of(bot, "holder", deployment) as holder,
        asyncio.timeout(SECONDS),
        holder.lease(NAMESPACE, ttl_seconds=1.0),
    ):
        await renewing.wait()


async def test_a_lease_can_be_entered_again(bot: Agent, deployment: Deployment) -> None:
    async with client_of(bot, "holder", deployment) as holder:
        lease = holder.lease(NAMESPACE, "k")
        for token in (1, 2):
            async with lease:
                assert lease.claim == hivemem.LeaseClaim(namespace=NAMESPACE, key="k", token=token)


async def test_what_is_not_entered_has_no_token(bot: Agent, deployment: Deployment) -> None:
    async with client_of(bot, "holder", deployment) as holder:
        with pytest.raises(RuntimeError, match="async with"):
            _ = holder.lease(NAMESPACE).token


async def test_a_lease_that_is_not_granted_in_time_is_held(bot: Agent, deployment: Deployment) -> None:
    async with (
        client_of(bot, "holder", deployment) as holder,
        client_of(bot, "other", deployment) as other,
        holder.lease(NAMESPACE),
    ):
        for wait_seconds in (0, 0.2):
            with pytest.raises(hivemem.LeaseHeld) as held:
                await within(other.lease(NAMESPACE, wait_seconds=wait_seconds))
            assert held.value.context["holder"] == "holder"


async def test_a_block_that_lost_its_lease_hears_of_it(bot: Agent, deployment: Deployment) -> None:
    """The lease is released from elsewhere, as a second process of the same agent can do."""
    async with client_of(bot, "holder", deployment) as holder:

        async def release(lease: Lease) -> None:
            await holder.memory.release(namespace=NAMESPACE, token=lease.token)

        async def notice(lease: Lease) -> None:
            await release(lease)
            await asyncio.wait_for(lease.lost.wait(), SECONDS)
            with pytest.raises(hivemem.LeaseLost):
                _ = lease.claim

        with pytest.raises(hivemem.LeaseLost, match="has ended"):
            await within(holder.lease(NAMESPACE, ttl_seconds=2), notice)
        with pytest.raises(hivemem.LeaseLost):
            await within(holder.lease(NAMESPACE), release)


async def test_an_error_of_the_block_goes_before_the_loss(bot: Agent, deployment: Deployment) -> None:
    async with client_of(bot, "holder", deployment) as holder:

        async def fail(lease: Lease) -> None:
            await holder.memory.release(namespace=NAMESPACE, token=lease.token)
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await within(holder.lease(NAMESPACE), fail)


async def test_who_is_cancelled_while_it_waits_gives_back_what_it_is_granted(
    bot: Agent, deployment: Deployment
) -> None:
    async with client_of(bot, "holder", deployment) as holder, client_of(bot, "other", deployment) as other:
        async with holder.lease(NAMESPACE):
            waiting = asyncio.create_task(within(other.lease(NAMESPACE, ttl_seconds=3_000, wait_seconds=60)))
            await waited_for_by(bot, 1)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        async with holder.lease(NAMESPACE, wait_seconds=SECONDS) as lease:
            assert lease.token == 3


async def test_who_waits_at_a_worker_that_is_killed_waits_on_at_another(bot: Agent, deployment: Deployment) -> None:
    settings = deployment.settings
    store = {name: str(getattr(settings, name)) for name in ("store", "data", "mongo_url", "mongo_database")}
    variables = {"nats_url": settings.nats_url, "http_port": "0", **store}
    victim = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "hivemem_memory"),
        env={**os.environ, **{f"HIVEMEM_{name.upper()}": value for name, value in variables.items()}},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    assert victim.stderr is not None
    async with asyncio.timeout(SECONDS):
        while b"worker started" not in await victim.stderr.readline():
            pass
    got: list[str] = []

    async def take_turn(name: str) -> None:
        async with (
            client_of(bot, name, deployment, attempt_seconds=0.5) as hive,
            hive.lease(NAMESPACE, wait_seconds=60),
        ):
            got.append(name)

    names = [f"waiter-{number}" for number in range(12)]
    try:
        async with client_of(bot, "holder", deployment, attempt_seconds=0.5) as holder, holder.lease(NAMESPACE):
            turns: list[asyncio.Task[None]] = []
            for number, name in enumerate(names, start=1):
                turns.append(asyncio.create_task(take_turn(name)))
                await waited_for_by(bot, number)
            victim.send_signal(signal.SIGKILL)
            await victim.wait()
        await asyncio.gather(*turns)
    finally:
        if victim.returncode is None:
            victim.kill()
        await victim.communicate()
    assert got == names


async def test_who_waits_gets_it_after_the_bus_was_away(tmp_path: Path) -> None:
    with packaged_nats(tmp_path / "nats") as bus:
        worker = build(MemorySettings(nats_url=bus.url, data=tmp_path / "data"))
        await worker.start()
        bot = Agent(Client(), worker, "default")
        try:
            async with hivemem.connect(bus.url, agent="holder") as holder, hivemem.connect(bus.url) as other:
                async with holder.lease(NAMESPACE, ttl_seconds=60):
                    waiting = asyncio.create_task(within(other.lease(NAMESPACE, wait_seconds=SECONDS)))
                    await waited_for_by(bot, 1)
                    bus.stop()
                    bus.start()
                assert (await waiting).token == 2
        finally:
            await worker.stop()
