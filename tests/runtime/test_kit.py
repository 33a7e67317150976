"""The shared building blocks of the workers."""

import asyncio
from pathlib import Path

import pytest
from nats.aio.client import Client

from hivemem_contracts.errors import Unavailable
from hivemem_runtime.background import LoopingBackground, Timer, for_each_tenant
from hivemem_runtime.backoff import Backoff, backoff_seconds
from hivemem_runtime.bounded import BoundedDict
from hivemem_runtime.ledger.pages import pages
from hivemem_runtime.ledger.port import Append, Page, system_write

from .things import THING, Thing, eventually, open_ledger


@pytest.mark.parametrize(("failures", "seconds"), [(1, 0.1), (2, 0.2), (3, 0.4), (6, 3.2), (7, 5.0), (10_000, 5.0)])
def test_each_failure_doubles_the_wait_up_to_the_longest(failures: int, seconds: float) -> None:
    assert backoff_seconds(failures, 0.1, 5.0) == pytest.approx(seconds)


def test_a_success_begins_the_backoff_anew() -> None:
    backoff = Backoff(1.0, 60.0)
    assert [backoff.failed(), backoff.failed()] == [1.0, 2.0]
    backoff.succeeded()
    assert (backoff.failures, backoff.failed()) == (0, 1.0)


def test_a_bounded_dictionary_drops_what_was_set_longest_ago() -> None:
    known = BoundedDict[str, int](2)
    known["a"], known["b"] = 1, 2
    known["a"] = 3
    known["c"] = 4
    assert dict(known) == {"a": 3, "c": 4}


async def test_every_page_is_read_once_from_the_cursor_on() -> None:
    asked: list[str | None] = []

    async def read(cursor: str | None) -> Page[int]:
        asked.append(cursor)
        number = int(cursor or 0)
        return Page([number] if number else [], None if number == 3 else str(number + 1))

    assert [page async for page in pages(read)] == [[], [1], [2], [3]]
    assert asked == [None, "1", "2", "3"]
    assert [page async for page in pages(read, "2")] == [[2], [3]]


async def test_a_timer_does_every_step_each_round_though_one_of_them_fails() -> None:
    done: list[str] = []
    rounds = asyncio.Event()

    async def fail() -> None:
        done.append("fail")
        raise Unavailable("not now", retry_after_ms=1)

    async def work() -> None:
        done.append("work")
        if done.count("work") == 2:
            rounds.set()
        else:
            timer.wake()

    timer = Timer("timer", (fail, work), 60.0)
    await timer.start(Client())
    await asyncio.wait_for(rounds.wait(), 10)
    await timer.stop()
    assert done[:4] == ["fail", "work", "fail", "work"]
    assert timer.trouble is None


async def test_a_part_whose_loop_fails_is_in_trouble() -> None:
    failed = asyncio.Event()

    class Part(LoopingBackground):
        async def run(self) -> None:
            failed.set()
            raise KeyError("secret")

    part = Part("part")
    await part.start(Client())
    await asyncio.wait_for(failed.wait(), 10)
    await eventually(lambda: part.trouble is not None, "the failure shows")
    await part.stop()
    assert part.trouble is None


async def test_one_tenant_that_fails_keeps_no_other_from_its_turn(tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path / "t.db")
    await ledger.open()
    done: list[str] = []
    for tenant in ("a", "b", "c"):
        await ledger.commit(system_write(tenant, THING, "t", lambda heads, now: [Append(THING, "t", Thing(1))]))

    async def act(tenant: str) -> None:
        if tenant == "b":
            raise Unavailable("not now", retry_after_ms=1)
        done.append(tenant)

    await for_each_tenant(ledger, THING, act, at_once=2)
    await ledger.close()
    assert done == ["a", "c"]
