"""The order of writes: first in first out within a tenant, turns between tenants and kinds, slow tenants apart."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from hivemem_runtime.ledger.turns import DecisionTimes, TurnQueue

Job = tuple[str, str, int]  # kind, tenant, number


def queue_of(*jobs: Job) -> TurnQueue[Job]:
    queue: TurnQueue[Job] = TurnQueue(lambda job: job[0], lambda job: job[1], lambda job: job[0] == "border")
    for job in jobs:
        queue.put(job)
    return queue


def write(tenant: str, number: int) -> Job:
    return "write", tenant, number


def test_a_tenant_with_one_write_does_not_wait_for_the_many_of_another() -> None:
    queue = queue_of(*[write("a", n) for n in range(300)], write("b", 0))
    assert queue.take(3) == [write("a", 0), write("b", 0), write("a", 1)]


def test_nothing_passes_a_border() -> None:
    queue = queue_of(write("a", 0), ("border", "", 0), write("b", 0), ("border", "", 1), write("a", 1))
    queue.put_back(queue.take(9))
    assert [queue.take(9) for _ in range(6)] == [
        [write("a", 0)],
        [("border", "", 0)],
        [write("b", 0)],
        [("border", "", 1)],
        [write("a", 1)],
        [],
    ]


def test_a_write_does_not_wait_for_those_before_a_task_nor_the_task_for_all_writes() -> None:
    queue = queue_of(*[write("a", n) for n in range(300)], ("task", "", 0), write("b", 0))
    queue.put_back(queue.take(3)[1:])
    assert queue.take(9) == [("task", "", 0)]
    assert queue.take(3) == [write("b", 0), write("a", 1), write("a", 2)]


def test_what_is_put_back_goes_first() -> None:
    queue = queue_of(write("a", 0), write("a", 1), write("b", 0))
    taken = queue.take(3)
    queue.put(write("c", 0))
    queue.put_back(taken[1:])
    assert queue.take(9) == [write("b", 0), write("a", 1), write("c", 0)]


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


@given(
    st.lists(st.tuples(st.sampled_from(["write", "task", "border"]), st.sampled_from("abc"), st.integers(0, 99))),
    st.data(),
)
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
    for kind, tenant in product(("write", "task"), "abc"):
        assert [job for job in found if job[:2] == (kind, tenant)] == [job for job in jobs if job[:2] == (kind, tenant)]
    for border in [place for kind, _, place in jobs if kind == "border"]:
        done = {place for _, _, place in found[: [job[2] for job in found].index(border)]}
        assert done == set(range(border))


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
