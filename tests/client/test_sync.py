"""The synchronous client: calls that wait, from any thread, and what ends them."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from hashlib import sha256
from typing import Any

import pytest

import hivemem
import hivemem.sync
from hivemem.sync.blocking import iterated
from hivemem.sync.loop_thread import LoopThread
from hivemem_contracts.artifacts.replies import ArtifactContent
from hivemem_contracts.memory.replies import LeaseGranted, LeaseReleased
from hivemem_testing.contract import Server

from .fleet import Fleet, eventually

NOTE = hivemem.NewEvent(type="note")


@pytest.fixture
async def hive(shared_server: Server, fleet: Fleet) -> AsyncIterator[hivemem.sync.Hive]:
    hive = hivemem.sync.Hive(shared_server.url, tenant="acme", agent="bot", timeout_seconds=5)
    yield hive
    await asyncio.to_thread(hive.close)


async def test_methods_return_their_results_and_raise_their_errors(hive: hivemem.sync.Hive, fleet: Fleet) -> None:
    fleet.answers["get"] = lambda _: hivemem.NotFound("no such session", session_id="s9")

    def work() -> None:
        assert hive.sessions.append(session_id="s1", event=NOTE).sequence == 1
        hive.request("sessions.append", {"session_id": "s1", "event": {"type": "note"}})
        with pytest.raises(hivemem.NotFound):
            hive.sessions.get(session_id="s9")
        hive.with_options(message_id="m1").sessions.append(session_id="s1", event=NOTE)

    await asyncio.to_thread(work)

    assert fleet.asked[-1].message_id == "m1"


async def test_many_threads_use_one_client(hive: hivemem.sync.Hive, fleet: Fleet) -> None:
    def append(number: int) -> str:
        return hive.sessions.append(session_id=f"s{number}", event=NOTE).session_id

    with ThreadPoolExecutor(16) as threads:
        loop = asyncio.get_running_loop()
        found = await asyncio.gather(*(loop.run_in_executor(threads, append, number) for number in range(200)))

    assert found == [f"s{number}" for number in range(200)]


async def test_commands_are_published_by_method_and_by_name(hive: hivemem.sync.Hive, fleet: Fleet) -> None:
    def work() -> list[str]:
        read: Any = hive.sessions.get
        with pytest.raises(hivemem.InvalidRequest, match="only reads"):
            hive.publish(read, session_id="s1")
        named = hive.publish("sessions.append", {"session_id": "s2", "event": {"type": "note"}})
        by_id = hive.with_options(message_id="m1")
        receipts = [named, hive.publish(by_id.sessions.append, session_id="s1", event=NOTE)]
        with hive.pipeline() as pipeline:
            waiting = [pipeline.publish(hive.sessions.append, session_id="s1", event=NOTE) for _ in range(40)]
        return [receipt.message_id for receipt in (*receipts, *(future.result() for future in waiting))]

    ids = await asyncio.to_thread(work)

    assert ids[1] == "m1"
    assert len(set(ids)) == len(await fleet.stored("INGEST")) == 42


async def test_a_pipeline_that_is_left_by_an_error_abandons_what_it_has(hive: hivemem.sync.Hive, fleet: Fleet) -> None:
    await fleet.api("STREAM.DELETE.INGEST")

    waiting: list[Future[hivemem.Receipt]] = []

    def work() -> None:
        with hive.pipeline() as pipeline:
            waiting.append(pipeline.publish(hive.sessions.append, session_id="s1", event=NOTE))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await asyncio.to_thread(work)
    with pytest.raises(CancelledError):
        waiting[0].result()


async def test_a_loop_over_a_feed_closes_it_when_it_is_left(hive: hivemem.sync.Hive, fleet: Fleet) -> None:
    for version in (1, 2, 3):
        await fleet.announce("acme", "s1", version)

    def work() -> list[int]:
        versions: list[int] = []
        for change in hive.changes("event.s1", since="start"):
            versions.append(change.version)
            if change.version == 2:
                break
        with hive.changes("event.s1", since="start") as feed:
            began = feed.cursor
            # As a call does that is interrupted when a change has just come.
            feed.thread.run(feed._take())  # pyright: ignore[reportPrivateUsage]
            assert feed.cursor == began
            versions.append(next(feed).version)
            assert feed.cursor != began
        assert list(feed) == []
        return versions

    async def closed() -> bool:
        return not (await fleet.api("CONSUMER.NAMES.CHANGES"))["consumers"]

    assert await asyncio.to_thread(work) == [1, 2, 1]
    await eventually(closed, "both feeds are closed")


async def test_closing_the_client_ends_a_waiting_reader(hive: hivemem.sync.Hive) -> None:
    feed = hive.changes()
    await asyncio.to_thread(feed.open)
    waiting = asyncio.ensure_future(asyncio.to_thread(list[Any], feed))
    await asyncio.sleep(0)

    await asyncio.to_thread(hive.close)

    assert await waiting == []
    with pytest.raises(RuntimeError, match="closed"):
        await asyncio.to_thread(feed.open)


async def test_a_lease_is_held_for_a_block_and_says_when_it_is_lost(hive: hivemem.sync.Hive, fleet: Fleet) -> None:
    granted = {"namespace": "user:alice", "token": 3, "expires_at": "2030-01-01T00:00:00Z"}
    fleet.answers["memory.lease"] = lambda _: LeaseGranted.model_validate(granted)
    fleet.answers["memory.renew"] = lambda _: hivemem.LeaseHeld("another has it")
    fleet.answers["memory.release"] = lambda _: LeaseReleased.model_validate({**granted, "released": True})

    def work() -> None:
        with hive.lease("user:alice") as lease:
            assert lease.claim.token == 3
        with pytest.raises(hivemem.LeaseLost), hive.lease("user:alice", ttl_seconds=0.1) as lease:
            assert lease.lost.wait(10)

    await asyncio.to_thread(work)

    assert [asked.body["token"] for asked in fleet.asked if asked.subject.endswith("release")] == [3]


async def test_files_come_from_iterables_and_a_callback_cannot_use_the_client(
    hive: hivemem.sync.Hive, fleet: Fleet
) -> None:
    artifact: dict[str, Any] = {
        "artifact_id": "a1",
        "session_id": "s1",
        "name": "a",
        "version": 1,
        "url": "hive://acme/s1/a?version=1",
        "size": 2,
        "sha256": sha256(b"hi").hexdigest(),
        "content_type": "text/plain",
        "metadata": {},
        "created_by": "bot",
        "created_at": "2026-01-01T00:00:00Z",
    }
    content: dict[str, Any] = {
        "artifact": artifact,
        "data_base64": "aGk=",
        "offset": 0,
        "chunk_subject": "c",
        "chunk_bytes": 2,
    }
    fleet.answers["artifacts.save"] = lambda _: hivemem.Artifact.model_validate(artifact)
    fleet.answers["artifacts.get"] = lambda _: ArtifactContent.model_validate(content)

    def read_on(sent: int, total: int | None) -> None:
        hive.artifacts.read("s1", "a")

    def work() -> None:
        saved = hive.artifacts.upload("s1", "a", (letter.encode() for letter in "hi"))
        assert hive.artifacts.read(saved.url) == b"hi"
        assert list(hive.open(saved.url).stream()) == [b"hi"]
        with pytest.raises(RuntimeError, match="callback"):
            hive.artifacts.upload("s1", "a", b"hi", progress=read_on)

    await asyncio.to_thread(work)

    assert [asked.body["data_base64"] for asked in fleet.asked if asked.subject.endswith("save")] == ["aGk=", "aGk="]


def test_an_iterator_that_is_left_is_closed() -> None:
    thread = LoopThread(nothing)
    closed: list[bool] = []

    async def numbers() -> AsyncIterator[int]:
        try:
            while True:
                yield 1
        finally:
            closed.append(True)

    for _ in iterated(numbers(), thread):
        break
    gc.collect()

    assert closed == [True]
    thread.stop()


def test_stopping_ends_all_calls_and_refuses_later_ones() -> None:
    thread = LoopThread(nothing)
    begun = threading.Barrier(3)

    async def wait() -> None:
        await asyncio.to_thread(begun.wait)
        await asyncio.Event().wait()

    def call() -> None:
        with pytest.raises(RuntimeError, match="closed"):
            thread.run(wait())

    with ThreadPoolExecutor(2) as threads:
        calls = [threads.submit(call) for _ in range(2)]
        begun.wait()
        thread.stop()
        thread.stop()
    for ended in calls:
        ended.result()
    with pytest.raises(RuntimeError, match="closed"):
        thread.run(nothing())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_fork_refuses_a_client_that_was_used_before_and_takes_one_that_was_not() -> None:
    used, unused = LoopThread(nothing), LoopThread(nothing)
    used.run(nothing())

    assert in_a_fork(lambda: unused.run(nothing())) == "None"
    assert in_a_fork(lambda: used.run(nothing())).startswith("RuntimeError: this client was used before the process")
    used.stop()


def test_an_interrupted_call_ends_and_the_program_ends_without_close(shared_server: Server) -> None:
    program = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, shared_server.url], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert program.stdout is not None
    assert program.stdout.readline() == b"waiting\n"
    program.send_signal(signal.SIGINT)
    said, complaints = program.communicate(timeout=60)

    assert (said, complaints, program.returncode) == (b"cancelled\ninterrupted\nstill there\n", b"", 0)


INTERRUPTED = """
import asyncio, sys
import hivemem.sync

hive = hivemem.sync.connect(sys.argv[1])

async def wait():
    print("waiting", flush=True)
    try:
        await asyncio.Event().wait()
    finally:
        print("cancelled", flush=True)

try:
    hive.thread.run(wait())
except KeyboardInterrupt:
    print("interrupted", flush=True)

async def answer():
    return "still there"

print(hive.thread.run(answer()))
"""


async def nothing() -> None:
    return


def in_a_fork(work: Callable[[], object]) -> str:
    """Return the result or the error of a call in a child of this process."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            said = str(work())
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as said_there:
        return said_there.read()
