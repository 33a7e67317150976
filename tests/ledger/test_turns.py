"""Whose turn it is: order within a tenant, turns between tenants, tasks as borders, slow tenants apart."""

from hypothesis import given
from hypothesis import strategies as st

from hivemem_runtime.ledger.turns import DecisionTimes, TurnQueue

Job = tuple[str, str, int]  # kind, tenant, number


def queue_of(*jobs: Job) -> TurnQueue[Job]:
    queue: TurnQueue[Job] = TurnQueue(lambda job: job[0], lambda job: job[1])
    for job in jobs:
        queue.put(job)
    return queue


def write(tenant: str, number: int) -> Job:
    return "write", tenant, number


def test_a_tenant_with_one_write_does_not_wait_for_the_many_of_another() -> None:
    queue = queue_of(*[write("a", n) for n in range(300)], write("b", 0))
    assert queue.take(3) == [write("a", 0), write("b", 0), write("a", 1)]


def test_nothing_passes_a_task() -> None:
    queue = queue_of(write("a", 0), ("task", "", 0), ("task", "", 1), write("b", 0), write("a", 1))
    assert [queue.take(9) for _ in range(4)] == [
        [write("a", 0)],
        [("task", "", 0), ("task", "", 1)],
        [write("b", 0), write("a", 1)],
        [],
    ]


def test_what_is_put_back_goes_first() -> None:
    queue = queue_of(write("a", 0), write("a", 1), write("b", 0))
    taken = queue.take(3)
    queue.put(write("c", 0))
    queue.put_back(taken[1:])
    assert queue.take(9) == [write("b", 0), write("a", 1), write("c", 0)]
    queue = queue_of(write("a", 0), ("task", "", 0))
    queue.put_back(queue.take(1))
    assert (len(queue), queue.take(9), queue.take(9)) == (2, [write("a", 0)], [("task", "", 0)])


def test_slow_tenants_and_others_are_committed_apart_and_by_turns() -> None:
    queue = queue_of(*[write("slow", n) for n in range(9)], *[write(tenant, n) for n in range(4) for tenant in "bc"])
    queue.note([], {"slow"})
    assert [queue.take(4) for _ in range(4)] == [
        [write("slow", 0), write("slow", 1), write("slow", 2), write("slow", 3)],
        [write("b", 0), write("c", 0), write("b", 1), write("c", 1)],
        [write("slow", 4), write("slow", 5), write("slow", 6), write("slow", 7)],
        [write("b", 2), write("c", 2), write("b", 3), write("c", 3)],
    ]
    queue.put(write("b", 4))
    queue.note([write("slow", 7)], ())
    assert queue.take(9) == [write("slow", 8), write("b", 4)]


@given(st.lists(st.tuples(st.sampled_from(["write", "task"]), st.sampled_from("abc"), st.integers(0, 99))), st.data())
def test_every_job_is_taken_once_and_in_the_order_of_its_tenant(plan: list[Job], data: st.DataObject) -> None:
    jobs: list[Job] = [(kind, tenant, place) for place, (kind, tenant, _) in enumerate(plan)]
    queue = queue_of(*jobs)
    found: list[Job] = []
    while taken := queue.take(data.draw(st.integers(1, 5))):
        assert len({job[0] for job in taken}) == 1
        worked_on = data.draw(st.integers(1, len(taken)))
        queue.note(taken[:worked_on], data.draw(st.sets(st.sampled_from("abc"))))
        queue.put_back(taken[worked_on:])
        found += taken[:worked_on]
        assert len(queue) == len(jobs) - len(found)
    assert sorted(found, key=lambda job: job[2]) == jobs
    for tenant in "abc":
        assert [job for job in found if job[1] == tenant] == [job for job in jobs if job[1] == tenant]
    borders = [(job[0], job[2]) for job in found]
    for kind, place in borders:
        earlier = {number for other, number in borders[: borders.index((kind, place))] if other != kind}
        assert all(number < place for number in earlier)


def test_slow_decisions_end_a_batch_sooner_than_many_quick_ones() -> None:
    times = DecisionTimes()
    for _ in range(60):
        times.add("a", 0.0004)
    assert (times.enough, times.slow_tenants) == (False, set())
    for _ in range(10):
        times.add("a", 0.0004)
    assert (times.enough, times.slow_tenants) == (True, set())
    times = DecisionTimes()
    times.add("b", 0.01)
    assert (times.enough, times.slow_tenants) == (True, {"b"})
