"""A full queue refuses writes, and loses none that it accepted."""

import asyncio

from hivemem_contracts.errors import Overloaded
from hivemem_runtime.ledger.port import Outcome

from .backends import Backend, within
from .entities import COUNTER, CounterHead
from .writes import TENANT, count


async def test_full_queue_refuses_what_it_cannot_take_and_keeps_the_rest(backend: Backend) -> None:
    ledger = await backend.open(queue_limit=16)

    async def submit(number: int) -> Outcome:
        return await ledger.commit(count("c", told=None))

    outcomes = await within(asyncio.gather(*[submit(number) for number in range(3000)], return_exceptions=True))

    refused = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    assert refused
    assert all(isinstance(refusal, Overloaded) and refusal.retryable for refusal in refused)
    taken = len(outcomes) - len(refused)
    assert taken >= 16
    head = await ledger.head(COUNTER, TENANT, "c")
    assert head
    assert (head.version, head.value) == (taken, CounterHead(taken, ""))


async def test_queue_that_was_full_takes_writes_again(backend: Backend) -> None:
    ledger = await backend.open(queue_limit=4)

    async def submit() -> Outcome:
        return await ledger.commit(count("c"))

    for _ in range(3):
        await within(asyncio.gather(*[submit() for _ in range(500)], return_exceptions=True))
        assert (await within(submit())).stamp


async def test_queue_of_stated_size_takes_as_many(backend: Backend) -> None:
    ledger = await backend.open(queue_limit=200)

    outcomes = await within(asyncio.gather(*[ledger.commit(count("c")) for _ in range(200)]))

    assert outcomes[-1].head == CounterHead(200, "")
