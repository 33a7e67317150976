"""An upload gets stuck while its source is being read: the chunk read then is neither lost nor counted twice."""

import asyncio
import io
import os
import threading
from collections.abc import AsyncIterator, Callable
from hashlib import sha256
from typing import Any

import pytest
import pytest_asyncio

import hivemem
from hivemem import uploading
from hivemem.connection import Connection, NoAnswer
from hivemem.threads import to_the_end
from hivemem.uploading import Uploading
from hivemem_contracts.limits import ARTIFACT_CHUNK_BYTES as CHUNK
from hivemem_testing.waiting import DEADLINE_SECONDS

pytestmark = pytest.mark.asyncio(loop_scope="session")

LARGE = os.urandom(9 * CHUNK + 99)
DIGEST = sha256(LARGE).hexdigest()
HELD_UP_AT = 3
"""The chunk that is being read when the first chunk finds no worker, with two more in flight."""


class Bus:
    """The first chunk finds no worker once the source is being read; the next two get no answer until then.

    When their requests end, the client has seen the failure.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._reading = asyncio.Event()
        self._seen = asyncio.Event()
        self.seen_by_threads = threading.Event()
        self._calls = 0

    def fail(self) -> None:
        self._loop.call_soon_threadsafe(self._reading.set)

    async def seen(self) -> None:
        self.fail()
        await asyncio.wait_for(self._seen.wait(), DEADLINE_SECONDS)

    def seen_in_thread(self) -> None:
        self.fail()
        assert self.seen_by_threads.wait(DEADLINE_SECONDS)

    async def request(self, request: Callable[..., Any], connection: Connection, subject: str, *rest: Any) -> Any:
        if ".artifacts.chunk." not in subject:
            return await request(connection, subject, *rest)
        self._calls += 1
        if self._calls == 1:
            await self._reading.wait()
            raise NoAnswer("no_responders")
        if self._calls > HELD_UP_AT:
            return await request(connection, subject, *rest)
        try:
            return await asyncio.Event().wait()
        finally:
            self._seen.set()
            self.seen_by_threads.set()


@pytest_asyncio.fixture(loop_scope="session")
async def bus(monkeypatch: pytest.MonkeyPatch) -> Bus:
    bus, request = Bus(), Connection.request

    async def failing(self: Connection, subject: str, *rest: Any) -> Any:
        return await bus.request(request, self, subject, *rest)

    monkeypatch.setattr(Connection, "request", failing)
    return bus


async def pieces(data: bytes, held_up: Callable[[], Any]) -> AsyncIterator[bytes]:
    for index in range(-(-len(data) // CHUNK)):
        if index == HELD_UP_AT:
            await held_up()
        yield data[index * CHUNK : (index + 1) * CHUNK]


async def test_an_iterator_goes_on_behind_it(hive: hivemem.Hive, bus: Bus) -> None:
    artifact = await hive.artifacts.upload("s1", "a", pieces(LARGE, bus.seen))
    assert (artifact.size, artifact.sha256) == (len(LARGE), DIGEST)
    assert await hive.artifacts.read("s1", "a") == LARGE


class Pipe(io.BytesIO):
    """A file that cannot seek and blocks at one place."""

    def __init__(self, bus: Bus) -> None:
        super().__init__(LARGE)
        self._bus = bus

    def seekable(self) -> bool:
        return False

    def read(self, size: int | None = -1, /) -> bytes:
        if self.tell() == HELD_UP_AT * CHUNK:
            self._bus.seen_in_thread()
        return super().read(size)


async def test_a_pipe_goes_on_behind_it(hive: hivemem.Hive, bus: Bus) -> None:
    artifact = await hive.artifacts.upload("s1", "a", Pipe(bus))
    assert (artifact.size, artifact.sha256) == (len(LARGE), DIGEST)
    assert await hive.artifacts.read("s1", "a") == LARGE


async def test_a_chunk_is_in_the_hash_once(hive: hivemem.Hive, bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow:
        def __init__(self) -> None:
            self._hash = sha256()
            self._updates = 0

        def update(self, data: bytes) -> None:
            if self._updates == HELD_UP_AT:
                bus.seen_in_thread()
            self._updates += 1
            self._hash.update(data)

        def hexdigest(self) -> str:
            return self._hash.hexdigest()

    monkeypatch.setattr(uploading, "sha256", Slow)
    assert (await hive.artifacts.upload("s1", "a", LARGE)).sha256 == DIGEST


async def test_a_source_may_take_longer_than_anything_else(
    hive: hivemem.Hive, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time limit of an upload does not run while the client has nothing to send."""
    run, made = Uploading.run, list[Uploading]()

    async def noted(self: Uploading) -> hivemem.Artifact:
        made.append(self)
        return await run(self)

    async def held_up() -> None:
        await bus.seen()
        made[0]._advanced -= 3_600  # pyright: ignore[reportPrivateUsage]  # an hour passes

    monkeypatch.setattr(Uploading, "run", noted)
    assert (await hive.artifacts.upload("s1", "a", pieces(LARGE, held_up))).sha256 == DIGEST


async def test_an_error_that_nothing_helps_against_ends_the_reading(hive: hivemem.Hive) -> None:
    cut, reading = list[bool](), asyncio.Event()

    async def forever() -> None:
        reading.set()
        try:
            await asyncio.Event().wait()
        finally:
            cut.append(True)

    refused = hivemem.InvalidRequest("no")

    async def refuse(*_: Any) -> Any:
        await reading.wait()
        raise refused

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Uploading, "_send_chunk", refuse)
        with pytest.raises(hivemem.InvalidRequest) as raised:
            await hive.artifacts.upload("s1", "a", pieces(LARGE, forever))
    assert (raised.value, cut) == (refused, [True])


async def test_who_is_cancelled_waits_for_the_thread() -> None:
    began, release, ended = asyncio.Event(), threading.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def work() -> None:
        loop.call_soon_threadsafe(began.set)
        assert release.wait(DEADLINE_SECONDS)
        ended.set()

    task = asyncio.create_task(to_the_end(work))
    await began.wait()
    task.cancel()
    for _ in range(10):  # turns of the event loop
        await asyncio.sleep(0)
    assert not task.done()
    release.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()
