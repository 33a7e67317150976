"""Recall finds memories by meaning soon after each write, after every restart, and after failures of the engine."""

import os
import shutil
import signal
import sys
from functools import partial
from typing import Any

import pytest

from hivemem_testing.waiting import eventually

from .asking import recall, remember
from .conftest import StartUp
from .processes import engines_of
from .up import Up, lives
from .up import eventually as eventually_holds

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc")

SEAT = "On trains Alice wants to be seated at the window."
MEAL = "No nuts: she is allergic to them."
QUESTION = "where does she like to sit"


async def is_found(up: Up, key: str, *, version: int = 1) -> None:
    """Wait until the memory is the best hit of a complete answer."""
    answer: dict[str, Any] = {}

    async def found() -> bool:
        answer.clear()
        answer.update(await recall(up.nats, QUESTION, limit=1, wait_ms=2_000))
        best = [(item["key"], item["version"]) for item in answer["items"]]
        return best == [(key, version)] and not answer["degraded"]

    await eventually(found, f"{key} is found")


def engine_of(up: Up) -> int:
    eventually_holds(lambda: len(engines_of(up.process.pid)) == 1, "the engine runs")
    return engines_of(up.process.pid)[0]


def is_gone(pid: int) -> bool:
    return not lives(pid)


async def test_what_was_written_is_found_and_still_is_after_a_restart(start_up: StartUp) -> None:
    up = start_up().ready()
    await remember(up.nats, "seat", SEAT)
    await remember(up.nats, "meal", MEAL)
    await is_found(up, "seat")
    engine = engine_of(up)
    assert up.stop() == 0
    assert not lives(engine)
    assert up.stderr == ""

    again = start_up().ready()
    await is_found(again, "seat")
    assert await remember(again.nats, "seat", "Alice has come to like sitting on the aisle.") == 2
    await is_found(again, "seat", version=2)


async def test_an_index_that_was_lost_is_made_again(start_up: StartUp) -> None:
    up = start_up().ready()
    await remember(up.nats, "seat", SEAT)
    await is_found(up, "seat")
    assert up.stop() == 0
    shutil.rmtree(up.data / "vectors")
    await is_found(start_up().ready(), "seat")


async def test_kill_9_takes_the_engine_along_and_nothing_is_missing_afterwards(start_up: StartUp) -> None:
    version = 0
    for _ in range(2):
        up = start_up().ready()
        if version:
            await is_found(up, "seat", version=version)
        engine = engine_of(up)
        version = await remember(up.nats, "seat", f"{SEAT} This was said {version + 1} times.")
        up.kill()  # before, during or after indexing
        await eventually(partial(is_gone, engine), "the engine is gone")
    await is_found(start_up().ready(), "seat", version=version)


async def test_its_engine_is_started_again(start_up: StartUp) -> None:
    up = start_up().ready()
    await remember(up.nats, "seat", SEAT)
    await is_found(up, "seat")
    killed = engine_of(up)
    os.kill(killed, signal.SIGKILL)
    await remember(up.nats, "meal", MEAL)
    await is_found(up, "seat")
    assert engine_of(up) != killed
    assert up.stop() == 0


async def test_an_index_that_is_another_models_is_refused_by_name(start_up: StartUp) -> None:
    first = start_up().ready()
    await remember(first.nats, "seat", SEAT)
    await is_found(first, "seat")
    assert first.stop() == 0
    other = {"HIVEMEM_EMBEDDER": "openai", "HIVEMEM_EMBEDDER_URL": "http://127.0.0.1:1/v1"}
    other |= {"HIVEMEM_EMBEDDER_MODEL": "nomic-embed-text", "HIVEMEM_EMBEDDER_DIMENSION": "768"}
    refused = start_up(settings=other)
    assert refused.wait() == 1
    assert refused.stdout == ""
    assert refused.stderr == (
        "hivemem up: HIVEMEM_COLLECTION=memories: the collection memories is of dimension 384, not 768; "
        "give each model a collection of its own\n"
    )
    assert start_up(settings={**other, "HIVEMEM_COLLECTION": "nomic"}).ready().stop() == 0
