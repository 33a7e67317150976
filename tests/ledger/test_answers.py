"""The answer of a decision reaches the caller of the write, and no caller of a repetition."""

import asyncio

from hivemem_runtime.ledger.port import Append, Decided, Heads, Ledger

from .backends import within
from .entities import COUNTER, CounterSet
from .writes import Told, value_of, write


def _count(heads: Heads, now: int) -> Decided:
    value = value_of(heads, "c") + 1
    return Decided([Append(COUNTER, "c", CounterSet(value))], f"it is {value}")


async def test_the_answer_is_that_of_the_run_that_was_committed(ledger: Ledger) -> None:
    writes = [write(COUNTER, "c", _count) for _ in range(20)]
    outcomes = await within(asyncio.gather(*map(ledger.commit, writes)))
    assert [outcome.answer for outcome in outcomes] == [f"it is {value}" for value in range(1, 21)]


async def test_a_decision_that_appends_nothing_answers_too(ledger: Ledger) -> None:
    outcome = await within(ledger.commit(write(COUNTER, "c", lambda heads, now: Decided((), "nothing to do"))))
    assert (outcome.stamp, outcome.answer) == (None, "nothing to do")


async def test_a_repeated_write_has_no_answer(ledger: Ledger) -> None:
    told = Told(request_id="r")
    first, again = [await within(ledger.commit(write(COUNTER, "c", _count, told))) for _ in range(2)]
    assert (first.answer, first.duplicate) == ("it is 1", False)
    assert (again.answer, again.duplicate) == (None, True)
