import asyncio

import pytest

from hivemem_contracts.errors import InvalidRequest, Unavailable
from hivemem_runtime.circuit_breaker import CircuitBreaker, Health
from hivemem_vectors.embedders.ports import GuardedEmbedder

from .counting import Clock, ScriptedEmbedder


def breaker(clock: Clock) -> CircuitBreaker:
    return CircuitBreaker("the model", clock, failures=3, first_wait_seconds=1, longest_wait_seconds=8)


def state(breaker: CircuitBreaker) -> str:
    return breaker.state  # a function call, since type checkers remember a property's earlier value


def fail(breaker: CircuitBreaker, times: int = 1, retry_after_ms: int = 0) -> None:
    for _ in range(times):
        with pytest.raises(Unavailable, match="no answer"), breaker.guard():
            raise Unavailable("no answer", retry_after_ms=retry_after_ms)


def succeed(breaker: CircuitBreaker) -> None:
    with breaker.guard():
        pass


def test_it_opens_after_some_failures_in_a_row() -> None:
    tested = breaker(Clock())
    fail(tested, 2)
    succeed(tested)
    fail(tested, 2)
    assert state(tested) == "closed"

    fail(tested)

    assert state(tested) == "open"


def test_open_it_refuses_at_once_and_says_why_and_when_it_will_try_again() -> None:
    clock = Clock()
    tested = breaker(clock)
    fail(tested, 3)
    clock.now = 0.25

    with pytest.raises(Unavailable, match=r"the model is left alone.*no answer") as refused, tested.guard():
        pytest.fail("let through")

    assert refused.value.context["retry_after_ms"] == 751
    assert tested.retry_in_seconds == 0.75


def test_half_open_it_lets_one_call_through_which_closes_it() -> None:
    clock = Clock()
    tested = breaker(clock)
    fail(tested, 3)
    clock.now = 1
    assert state(tested) == "half_open"

    with tested.guard(), pytest.raises(Unavailable), tested.guard():
        pytest.fail("a second one let through")

    assert state(tested) == "closed"
    assert tested.retry_in_seconds == 0


def test_a_failed_trial_opens_it_for_twice_as_long_up_to_a_bound() -> None:
    clock = Clock()
    tested = breaker(clock)
    fail(tested, 3)
    waits: list[float] = []
    for _ in range(6):
        waits.append(tested.retry_in_seconds)
        clock.now += tested.retry_in_seconds
        fail(tested)

    assert waits == [1, 2, 4, 8, 8, 8]


def test_after_a_success_it_waits_briefly_again() -> None:
    clock = Clock()
    tested = breaker(clock)
    fail(tested, 3)
    clock.now = 1
    fail(tested)
    clock.now = 3
    succeed(tested)
    fail(tested, 3)

    assert tested.retry_in_seconds == 1


def test_it_waits_as_long_as_it_is_asked_to_up_to_its_bound() -> None:
    tested, patient = breaker(Clock()), breaker(Clock())
    fail(tested, 3, retry_after_ms=5_000)
    fail(patient, 3, retry_after_ms=500_000)

    assert (tested.retry_in_seconds, patient.retry_in_seconds) == (5, 8)


def test_what_refuses_is_there() -> None:
    tested = breaker(Clock())
    for _ in range(5):
        fail(tested, 2)
        with pytest.raises(InvalidRequest), tested.guard():
            raise InvalidRequest("no", field="text")

    assert state(tested) == "closed"


def test_a_cancelled_trial_says_nothing_and_another_may_follow() -> None:
    clock = Clock()
    tested = breaker(clock)
    fail(tested, 3)
    clock.now = 1
    with pytest.raises(asyncio.CancelledError), tested.guard():
        raise asyncio.CancelledError

    assert state(tested) == "half_open"
    succeed(tested)
    assert state(tested) == "closed"


def test_how_an_earlier_call_ends_changes_nothing_once_it_is_open() -> None:
    clock = Clock()
    tested = breaker(clock)
    with tested.guard():
        fail(tested, 3)
    assert state(tested) == "open"

    with pytest.raises(Unavailable, match="left alone"), tested.guard():
        pass


def test_health_and_pause_follow_the_last_call() -> None:
    clock = Clock()
    tested = breaker(clock)
    assert (tested.health, tested.is_paused) == (Health(True), False)
    with pytest.raises(Unavailable), tested.guard():
        raise Unavailable("busy", retry_after_ms=2_000)
    assert (tested.health, tested.is_paused) == (Health(False, "busy"), True)
    clock.now = 2
    assert not tested.is_paused
    succeed(tested)
    assert tested.health == Health(True)


def test_a_refusal_shows_in_health_only_for_a_wrong_setup() -> None:
    tested = CircuitBreaker("the model", Clock(), broken_by={"dimension"})
    with pytest.raises(InvalidRequest), tested.guard():
        raise InvalidRequest("no", field="text")
    assert tested.health == Health(True)
    with pytest.raises(InvalidRequest), tested.guard():
        raise InvalidRequest("of 3, not 2", field="dimension")
    assert (tested.health, tested.is_paused) == (Health(False, "of 3, not 2"), False)
    assert state(tested) == "closed"


async def test_an_embedder_that_keeps_failing_is_left_alone() -> None:
    def down(_: object) -> None:
        raise Unavailable("no answer", retry_after_ms=0)

    inner = ScriptedEmbedder(down)
    embedder = GuardedEmbedder(inner, breaker(Clock()))
    for _ in range(10):
        with pytest.raises(Unavailable):
            await embedder.embed(["a"])
    await embedder.close()

    assert len(inner.asked) == 3
    assert (embedder.model, embedder.dimension, inner.closed) == ("scripted", 2, True)
