"""The rules of leases, without a store: who holds, who is next, which tokens count."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hivemem_contracts.errors import InvalidRequest, LeaseHeld, RevisionConflict
from hivemem_contracts.limits import LEASE_WAITERS
from hivemem_contracts.memory.models import LeaseClaim
from hivemem_memory.decisions.leases import (
    Waiter,
    acquire_lease,
    end_lease,
    give_up,
    lease_of,
    release_lease,
    renew_lease,
    require_claim,
)
from hivemem_memory.entities.leases import LEASE, Lease
from hivemem_runtime.ledger.places import place_of
from hivemem_runtime.ledger.port import Decision
from hivemem_testing.heads import DictHeads

NAMESPACE = "project:rome"
PLACE = place_of(NAMESPACE)
TTL_MS = 1_000
WAIT_MS = 10_000


@dataclass
class Clock:
    """A lease and the time in milliseconds; each step applies a decision."""

    ms: int = 0
    heads: DictHeads = field(default_factory=DictHeads)
    granted: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])

    @property
    def lease(self) -> Lease:
        return lease_of(self.heads(LEASE, PLACE))

    @property
    def holder(self) -> str | None:
        return self.lease.holder

    @property
    def queue(self) -> list[str]:
        return [waiter[0] for waiter in self.lease.waiters]

    @property
    def now(self) -> int:
        return self.ms * 1_000

    def apply(self, decision: Decision) -> bool:
        before = self.lease.token
        self.heads.apply(decision, "bot")
        if self.lease.token != before:
            self.granted.append((self.lease.token, str(self.lease.ticket)))
        return bool(decision)

    def acquire(self, ticket: str, *, wait_ms: int = 0, ttl_ms: int = TTL_MS) -> bool:
        waiter = Waiter(ticket, f"agent of {ticket}", ttl_ms, self.now + wait_ms * 1_000)
        return self.apply(acquire_lease(self.heads, PLACE, waiter, waits=wait_ms > 0, now=self.now))

    def release(self, ticket: str, token: int) -> bool:
        return self.apply(release_lease(self.heads, PLACE, f"agent of {ticket}", token, self.now))

    def renew(self, ticket: str, token: int, ttl_ms: int | None = None) -> bool:
        return self.apply(renew_lease(self.heads, PLACE, f"agent of {ticket}", token, ttl_ms, self.now))

    def end(self) -> bool:
        return self.apply(end_lease(self.heads, PLACE, self.now))

    def give_up(self, ticket: str) -> bool:
        return self.apply(give_up(self.heads, PLACE, ticket, self.now))

    def claim(self, token: int) -> None:
        require_claim(self.heads, LeaseClaim(namespace=NAMESPACE, token=token), NAMESPACE, "k", self.now)


def test_a_free_lease_is_granted_at_once() -> None:
    clock = Clock()
    assert clock.acquire("a", ttl_ms=500)
    assert clock.lease == Lease("acquired", 1, "agent of a", "a", 500, 500_000)
    clock.claim(1)


def test_a_held_one_is_refused_who_does_not_wait() -> None:
    clock = Clock()
    clock.acquire("a")
    clock.acquire("b", wait_ms=WAIT_MS)
    with pytest.raises(LeaseHeld) as refused:
        clock.acquire("c")
    assert refused.value.context == {
        "holder": "agent of a",
        "expires_at": "1970-01-01T00:00:01.000000Z",
        "waiting": 1,
    }


def test_who_waits_gets_it_in_the_order_of_their_coming() -> None:
    clock = Clock()
    clock.acquire("a")
    for ticket in "bcd":
        clock.acquire(ticket, wait_ms=WAIT_MS)
    assert clock.queue == ["b", "c", "d"]
    for token, ticket in enumerate("abcd", start=1):
        assert clock.release(ticket, token)
    assert clock.granted == [(1, "a"), (2, "b"), (3, "c"), (4, "d")]
    assert clock.lease == Lease("released", 4)


def test_a_lease_that_is_handed_over_has_the_time_that_its_new_holder_asked_for() -> None:
    clock = Clock()
    clock.acquire("a")
    clock.acquire("b", wait_ms=WAIT_MS, ttl_ms=3_000)
    clock.ms = 600
    clock.release("a", 1)
    assert (clock.lease.ttl_ms, clock.lease.expires_at) == (3_000, 3_600_000)


def test_the_same_agent_waits_for_itself() -> None:
    clock = Clock()
    clock.acquire("a")
    waiter = Waiter("again", "agent of a", TTL_MS, clock.now + WAIT_MS * 1_000)
    clock.apply(acquire_lease(clock.heads, PLACE, waiter, waits=True, now=clock.now))
    assert (clock.holder, clock.queue) == ("agent of a", ["again"])


@pytest.mark.parametrize("ticket", ["a", "b"], ids=["holder", "waiter"])
def test_a_request_that_comes_again_changes_nothing(ticket: str) -> None:
    clock = Clock()
    clock.acquire("a")
    clock.acquire("b", wait_ms=WAIT_MS)
    assert not clock.acquire(ticket, wait_ms=WAIT_MS)


def test_it_ends_by_itself_at_its_time_and_not_before() -> None:
    clock = Clock()
    clock.acquire("a")
    clock.acquire("b", wait_ms=WAIT_MS)
    clock.ms = TTL_MS - 1
    assert not clock.end()
    clock.claim(1)
    clock.ms = TTL_MS
    with pytest.raises(RevisionConflict) as refused:
        clock.claim(1)
    assert refused.value.context == {"expected": 1, "actual": 1}
    assert clock.end()
    assert (clock.lease.change, clock.holder) == ("acquired", "agent of b")
    assert not clock.end()


def test_one_that_ended_goes_to_who_waited_before_who_comes_now() -> None:
    clock = Clock()
    clock.acquire("a")
    clock.acquire("b", wait_ms=WAIT_MS)
    clock.ms = TTL_MS
    clock.acquire("c", wait_ms=WAIT_MS)
    assert (clock.lease.change, clock.holder, clock.queue) == ("acquired", "agent of b", ["c"])


def test_one_that_ended_and_nobody_waits_for_is_there_for_the_taking() -> None:
    clock = Clock()
    clock.acquire("a")
    clock.ms = TTL_MS
    clock.acquire("c")
    assert clock.granted == [(1, "a"), (2, "c")]


def test_who_has_waited_long_enough_is_passed_over() -> None:
    clock = Clock()
    clock.acquire("a")
    clock.acquire("b", wait_ms=100)
    clock.acquire("c", wait_ms=WAIT_MS)
    clock.ms = 100
    clock.release("a", 1)
    assert clock.holder == "agent of c"


def test_an_end_that_nobody_waits_for_any_more_is_told_as_one() -> None:
    clock = Clock()
    clock.acquire("a")
    clock.acquire("b", wait_ms=100)
    clock.ms = TTL_MS
    clock.end()
    assert clock.lease == Lease("expired", 1)
    assert not clock.end()


def test_who_gives_up_leaves_the_queue() -> None:
    clock = Clock()
    clock.acquire("a")
    clock.acquire("b", wait_ms=100)
    clock.acquire("c", wait_ms=WAIT_MS)
    clock.ms = 100
    assert clock.give_up("b")
    assert (clock.lease.change, clock.holder, clock.queue) == ("awaited", "agent of a", ["c"])
    assert not clock.give_up("b")


def test_who_gives_up_at_the_moment_of_its_turn_gets_it() -> None:
    clock = Clock()
    clock.acquire("a")
    clock.acquire("b", wait_ms=TTL_MS)
    clock.ms = TTL_MS
    clock.give_up("b")
    assert clock.holder == "agent of b"


def test_who_gives_up_hands_over_what_is_due_to_somebody_else() -> None:
    clock = Clock()
    clock.acquire("a")
    clock.acquire("b", wait_ms=WAIT_MS)
    clock.acquire("c", wait_ms=TTL_MS)
    clock.ms = TTL_MS
    clock.give_up("c")
    assert (clock.lease.change, clock.holder, clock.queue) == ("acquired", "agent of b", [])


def test_the_queue_is_bounded() -> None:
    clock = Clock()
    clock.acquire("holder")
    for number in range(LEASE_WAITERS):
        clock.acquire(f"waiter {number}", wait_ms=WAIT_MS)
    with pytest.raises(LeaseHeld, match="1000 wait for it") as refused:
        clock.acquire("one more", wait_ms=WAIT_MS)
    assert refused.value.context["waiting"] == LEASE_WAITERS
    clock.ms = WAIT_MS
    clock.acquire("later")
    assert (clock.holder, clock.queue) == ("agent of later", [])


def test_its_holder_prolongs_it_from_now_on() -> None:
    clock = Clock()
    clock.acquire("a", ttl_ms=700)
    clock.ms = 600
    clock.renew("a", 1)
    assert (clock.lease.change, clock.lease.expires_at) == ("renewed", 1_300_000)
    clock.renew("a", 1, 5_000)
    assert clock.lease.expires_at == 5_600_000
    clock.renew("a", 1)
    assert clock.lease.expires_at == 1_300_000
    assert clock.granted == [(1, "a")]


def test_what_has_ended_is_not_prolonged() -> None:
    clock = Clock()
    clock.acquire("a")
    clock.ms = TTL_MS
    with pytest.raises(RevisionConflict) as ended:
        clock.renew("a", 1)
    assert ended.value.context == {"expected": 1, "actual": 1}
    clock.acquire("b")
    with pytest.raises(LeaseHeld) as taken:
        clock.renew("a", 1)
    assert taken.value.context["holder"] == "agent of b"


@pytest.mark.parametrize("step", [Clock.renew, Clock.release])
def test_only_its_holder_renews_and_releases(step: Callable[[Clock, str, int], bool]) -> None:
    clock = Clock()
    clock.acquire("a")
    with pytest.raises(LeaseHeld):
        step(clock, "somebody else", 1)


@pytest.mark.parametrize("token", [1, 3])
def test_an_old_token_releases_nothing(token: int) -> None:
    clock = Clock()
    clock.acquire("a")
    clock.ms = TTL_MS
    assert not clock.release("a", 1)
    clock.acquire("b")
    assert not clock.release("a", token)
    assert clock.holder == "agent of b"


@pytest.mark.parametrize(
    ("claim", "namespace", "key", "covered"),
    [
        (("project:rome", None), "project:rome", "k", True),
        (("project:rome", None), "project:rome:trains", "k", True),
        (("project:rome", None), "project:romex", "k", False),
        (("project:rome:trains", None), "project:rome", "k", False),
        (("project:rome", "k"), "project:rome", "k", True),
        (("project:rome", "k"), "project:rome", "l", False),
        (("project:rome", "k"), "project:rome:trains", "k", False),
    ],
)
def test_a_claim_covers_its_key_or_its_namespace(
    claim: tuple[str, str | None], namespace: str, key: str, covered: bool
) -> None:
    heads = DictHeads()
    place = place_of(*claim)
    heads.apply(acquire_lease(heads, place, Waiter("a", "a", TTL_MS, 0), waits=False, now=0), "a")
    named = LeaseClaim(namespace=claim[0], key=claim[1], token=1)
    if covered:
        require_claim(heads, named, namespace, key, 0)
    else:
        with pytest.raises(InvalidRequest) as refused:
            require_claim(heads, named, namespace, key, 0)
        assert refused.value.context == {"field": "lease"}


def test_a_lease_on_a_namespace_and_those_on_its_keys_are_different_leases() -> None:
    heads = DictHeads()
    for place in (place_of(NAMESPACE), place_of(NAMESPACE, "k"), place_of(f"{NAMESPACE}:k")):
        heads.apply(acquire_lease(heads, place, Waiter(place, "a", TTL_MS, 0), waits=False, now=0), "a")
        head = heads(LEASE, place)
        assert head is not None
        assert head.value is not None
        assert head.value.token == 1


def test_a_claim_on_what_was_never_leased_is_refused() -> None:
    with pytest.raises(RevisionConflict) as refused:
        Clock().claim(1)
    assert refused.value.context == {"expected": 1, "actual": 0}


def test_tokens_go_on_above_those_of_before_an_erasure() -> None:
    clock = Clock()
    for _ in range(3):
        clock.acquire("a")
        clock.release("a", clock.lease.token)
    clock.heads.erase(LEASE, PLACE)
    clock.acquire("b")
    assert clock.lease.token > 3


steps = st.lists(
    st.tuples(
        st.sampled_from(["acquire", "acquire", "wait", "wait", "release", "renew", "end", "give_up", "erase"]),
        st.integers(min_value=0, max_value=4),
        st.integers(min_value=0, max_value=700),
    ),
    max_size=60,
)


@given(steps)
def test_tokens_only_grow_and_nobody_is_overtaken(history: list[tuple[str, int, int]]) -> None:
    """In any history each grant has a higher token than all before it, and goes to the first waiting request."""
    clock = Clock()
    records = clock.heads.records.setdefault((LEASE.name, PLACE), [])
    for number, (what, which, passed) in enumerate(history):
        clock.ms += passed
        kept_records = len(records)
        before = clock.lease
        queue, tokens = clock.queue, [token for token, _ in clock.granted]
        alive = [waiter[0] for waiter in before.waiters if waiter[3] > clock.now]
        chosen = queue[which % len(queue)] if queue else "nobody"
        take(clock, what, number, chosen)
        for token, ticket in clock.granted[len(tokens) :]:
            assert token > max(tokens, default=0)
            first = alive[0] if alive else None
            assert ticket in (first, chosen if what == "give_up" else first) or (not alive and ticket == f"t{number}")
            assert before.expires_at is None or before.expires_at <= clock.now or what in ("release", "erase")
        kept = [ticket for ticket in queue if ticket in clock.queue]
        assert clock.queue[: len(kept)] == kept
        assert [record.waiting for _, record in records[kept_records:]] in ([], [len(clock.queue)])


def take(clock: Clock, what: str, number: int, chosen: str) -> None:
    held = clock.lease
    holder = str(held.holder).removeprefix("agent of ")
    try:
        if what == "erase":
            if held.token:
                clock.heads.erase(LEASE, PLACE)
        elif what in ("acquire", "wait"):
            clock.acquire(f"t{number}", wait_ms=400 if what == "wait" else 0, ttl_ms=500)
        elif what == "give_up":
            clock.give_up(chosen)
        elif what == "end":
            clock.end()
        elif held.token:
            step = clock.release if what == "release" else clock.renew
            step(holder, held.token)
    except (LeaseHeld, RevisionConflict):
        assert clock.lease == held
