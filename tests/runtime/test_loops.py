"""No background loop ends silently, and each ends when it is stopped."""

import asyncio
from contextlib import suppress

import pytest

from hivemem_runtime import loops
from hivemem_runtime.loops import Loop

from .things import eventually


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "LONGEST_BACKOFF_SECONDS", 0.01)


def task_of(name: str) -> "asyncio.Task[object]":
    (found,) = [task for task in asyncio.all_tasks() if task.get_name() == f"hivemem-{name}"]
    return found


def trouble_of(loop: Loop) -> str | None:
    return loop.trouble


async def test_a_loop_that_fails_or_ends_early_is_started_again_and_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    began = 0
    gone_well = asyncio.Event()

    async def run() -> None:
        nonlocal began
        began += 1
        if began == 1:
            raise RuntimeError("a fault")
        if began == 2:
            return
        if began == 3:
            raise asyncio.CancelledError  # the cancellation of another task
        gone_well.set()
        await loop.stopping.wait()

    loop = Loop("tests", run)
    assert trouble_of(loop) is None
    loop.start()
    await asyncio.wait_for(gone_well.wait(), 10)
    assert began == 4
    assert trouble_of(loop) is not None
    assert "tests failed and was started again" in str(trouble_of(loop))
    monkeypatch.setattr(loops, "RECENT_SECONDS", 0.0)
    assert trouble_of(loop) is None
    await loop.stop()
    assert "a fault" in "".join(capsys.readouterr())


async def test_a_loop_that_is_ended_from_outside_is_trouble_for_good() -> None:
    async def run() -> None:
        await loop.stopping.wait()

    loop = Loop("tests", run)
    loop.start()
    await asyncio.sleep(0)
    task_of("tests").cancel()
    await eventually(lambda: trouble_of(loop) is not None, "it says so")
    assert trouble_of(loop) == "the loop tests has ended; restart the worker"
    await loop.stop()
    assert trouble_of(loop) is None


async def test_a_stop_ends_a_loop_that_misses_its_cancellation() -> None:
    """`wait_for` loses a cancellation before Python 3.12 if the answer arrives at the same moment."""

    async def run() -> None:
        while not loop.stopping.is_set():
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()

    loop = Loop("tests", run)
    loop.start()
    await asyncio.sleep(0)
    await asyncio.wait_for(loop.stop(), 10)
    loop.start()
    assert not loop.stopping.is_set()
    await loop.stop()


async def test_a_stop_with_grace_lets_a_loop_finish() -> None:
    finished: list[bool] = []
    last_step = asyncio.Event()

    async def run() -> None:
        await loop.stopping.wait()
        await last_step.wait()
        finished.append(True)

    loop = Loop("tests", run)
    loop.start()
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_later(0.01, last_step.set)
    await loop.stop(grace_seconds=10)
    assert finished == [True]
