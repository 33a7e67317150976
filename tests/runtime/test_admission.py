"""Requests under way are bounded, shared between tenants, and started in turns."""

from hivemem_runtime.bus.requests.admission import Admission, Shares, Tenant


def admission(requests: int = 1_000, held: int = 1_000_000, working: int = 1_000_000) -> Admission[str]:
    return Admission(requests, held, working)


def taken(admission: Admission[str], tenant: str, size: int = 1, expected: int = 0) -> list[Tenant[str]]:
    """Admit requests of a tenant until one is refused; return the admitted ones."""
    found: list[Tenant[str]] = []
    while (tenant_of := admission.take(tenant, f"{tenant}{len(found)}", size, expected)) is not None:
        found.append(tenant_of)
    return found


def begun(admission: Admission[str]) -> list[str]:
    found: list[str] = []
    while (item := admission.next()) is not None:
        found.append(item)
    return found


def test_a_tenant_may_hold_as_much_as_is_free() -> None:
    requests = admission(requests=1_200)
    assert len(taken(requests, "a")) == 600
    assert len(taken(requests, "b")) == 300
    assert len(taken(requests, "c")) == 150


def test_bytes_are_shared_as_requests_are() -> None:
    requests = admission(held=12_000)
    assert len(taken(requests, "a", size=100)) == 60
    assert len(taken(requests, "b", size=100)) == 30
    assert requests.status()["bytes"] == 9_000


def test_one_alone_is_taken_and_begun_however_large() -> None:
    requests = admission(held=100, working=100)
    assert requests.take("a", "large", 5_000, 5_000) is not None
    assert requests.take("b", "small", 1, 0) is None
    assert requests.next() == "large"


def test_tenants_take_turns() -> None:
    requests = admission()
    for number in range(3):
        requests.take("a", f"a{number}", 1, 0)
    requests.take("b", "b0", 1, 0)
    requests.take("c", "c0", 1, 0)
    assert begun(requests) == ["a0", "b0", "c0", "a1", "a2"]


def test_work_begins_only_within_its_own_limit_and_leaves_room_for_others() -> None:
    requests = admission(working=1_000)
    tenants = [requests.take("a", f"a{number}", 0, 100) for number in range(20)]
    assert begun(requests) == ["a0", "a1", "a2", "a3", "a4"]
    requests.take("b", "b0", 0, 100)
    assert begun(requests) == ["b0"]
    assert (requests.status()["waiting"], requests.status()["under_way"]) == (15, 21)
    first = tenants[0]
    assert first is not None
    requests.done(first, 0, 100)
    assert begun(requests) == ["a5"]


def test_a_large_answer_counts_until_it_has_left() -> None:
    requests = admission(working=1_000)
    tenant = requests.take("a", "a0", 10, 90)
    assert tenant is not None
    assert requests.next() == "a0"
    requests.correct(tenant, 900, 900 - 90)
    requests.take("a", "a1", 10, 90)
    assert (requests.next(), requests.bytes) == (None, 920)
    requests.done(tenant, 910, 910)
    assert (requests.next(), requests.bytes) == ("a1", 10)


def test_nothing_is_left_of_a_tenant_that_has_nothing_under_way() -> None:
    requests = admission()
    tenant = requests.take("a", "a0", 10, 90)
    assert tenant is not None
    requests.next()
    requests.done(tenant, 10, 100)
    assert requests.take("a", "a1", 1, 1) is not tenant
    assert (requests.requests, requests.bytes, requests.working) == (1, 1, 0)


def test_no_tenant_takes_every_share() -> None:
    shares = Shares(8)
    for tenant, most in (("a", 4), ("b", 2), ("c", 1), ("d", 1)):
        for _ in range(most):
            assert shares.has_room(tenant)
            shares.take(tenant)
        assert not shares.has_room(tenant)
    shares.done("a")
    assert shares.has_room("e")
    assert shares.held == 7
    assert Shares(1).has_room("a")
