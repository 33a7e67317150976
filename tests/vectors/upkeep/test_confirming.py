"""An erasure is confirmed once it is done, announced, and removed from the store, and not before."""

from typing import Any

import pytest

from hivemem_contracts.errors import Unavailable
from hivemem_runtime.bus.feed.reading import FeedState
from hivemem_runtime.bus.requests.outgoing import Asking
from hivemem_runtime.ledger.places import place_of
from hivemem_runtime.ledger.port import Append, Write
from hivemem_vectors.pipeline.decisions.points import names_of, point_name
from hivemem_vectors.pipeline.endpoints.peers import FeedPosition, MemoryService
from hivemem_vectors.pipeline.entities import event_place
from hivemem_vectors.upkeep.entities import REMOVAL, Removal
from hivemem_vectors.upkeep.reactions.confirm_erasures import ErasureConfirmer

from ..wayward import WaywardStore
from .bench import COLLECTION, Bench
from .cabinet import NAMESPACE, TENANT

pytestmark = pytest.mark.asyncio(loop_scope="module")

RECEIPT = "r1"


class Receipts(MemoryService):
    """The receipts of a memory service, and the confirmations that it gets."""

    def __init__(self) -> None:
        super().__init__(Asking())
        self.status = "done"
        self.namespace = NAMESPACE
        self.key: str | None = None
        self.is_known = True
        self.told: list[tuple[str, int]] = []

    async def erasure(self, tenant: str, receipt: str) -> dict[str, Any] | None:
        assert tenant == TENANT
        if not self.is_known:
            return None
        shown = {"namespace": self.namespace, "key": self.key, "status": "running"}
        return {"receipt": receipt, **shown, "awaited": ["vectors"] if self.status == "done" else []}

    async def confirm_erasure(self, tenant: str, receipt: str, removed: int) -> None:
        assert tenant == TENANT
        self.told.append((receipt, removed))


class Feed(FeedPosition):
    """A feed that ends at 10, and the position that the worker has reached in it."""

    def __init__(self) -> None:
        super().__init__()
        self.identity = "feed"
        self.taken_up = 10
        self.ends = 10
        self.asked: list[str] = []

    async def end(self) -> FeedState:
        return FeedState(self.identity, self.ends)

    async def is_taken_up(self, tenant: str, prefix: str, end: FeedState) -> bool:
        self.asked.append(prefix)
        return end.identity == self.identity and self.taken_up >= end.last_sequence


class Confirmed:
    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.receipts, self.feed = Receipts(), Feed()
        self.clock = ErasureConfirmer(bench.ledger, bench.guarded, self.receipts, self.feed, collection=COLLECTION)

    async def erase(self, *keys: str) -> None:
        await self.bench.tell(*(self.bench.cabinet.erase(key, receipt=RECEIPT) for key in keys))

    async def removal(self) -> Removal | None:
        head = await self.bench.ledger.head(REMOVAL, TENANT, RECEIPT)
        return None if head is None else head.value

    async def step(self) -> list[tuple[str, int]]:
        """Run one step, and return the confirmations that the memory service got."""
        self.receipts.told.clear()
        await self.clock.step()
        return self.receipts.told


@pytest.fixture
def confirming(bench: Bench) -> Confirmed:
    return Confirmed(bench)


async def test_what_is_erased_is_confirmed_once(bench: Bench, confirming: Confirmed) -> None:
    await bench.remember("a", "b", "c")
    await confirming.erase("a", "b")
    assert await confirming.step() == [(RECEIPT, 2)]
    removal = await confirming.removal()
    assert removal is not None
    assert (removal.removed, removal.confirmed) == (2, True)
    assert await confirming.step() == []


async def test_an_erasure_that_runs_is_not_confirmed(bench: Bench, confirming: Confirmed) -> None:
    await bench.remember("a")
    await confirming.erase("a")
    confirming.receipts.status = "running"
    assert await confirming.step() == []
    confirming.receipts.status = "done"
    assert await confirming.step() == [(RECEIPT, 1)]


async def test_what_the_feed_still_tells_of_is_waited_for(bench: Bench, confirming: Confirmed) -> None:
    await bench.remember("a", "b")
    await confirming.erase("a")
    confirming.feed.taken_up = 9
    assert await confirming.step() == []
    confirming.feed.ends = 1_000
    await confirming.erase("b")
    confirming.feed.taken_up = 10
    assert await confirming.step() == [(RECEIPT, 2)]
    assert set(confirming.feed.asked) == {NAMESPACE}


async def test_a_feed_with_another_identity_has_another_end(bench: Bench, confirming: Confirmed) -> None:
    await bench.remember("a")
    await confirming.erase("a")
    confirming.feed.taken_up = 9
    assert await confirming.step() == []
    confirming.feed.identity, confirming.feed.ends = "another feed", 20
    confirming.feed.taken_up = 19
    assert await confirming.step() == []
    confirming.feed.taken_up = 20
    assert await confirming.step() == [(RECEIPT, 1)]


async def test_more_that_is_removed_later_is_confirmed_anew(bench: Bench, confirming: Confirmed) -> None:
    await bench.remember("a", "b")
    await confirming.erase("a")
    assert await confirming.step() == [(RECEIPT, 1)]
    await confirming.erase("b")
    assert await confirming.step() == [(RECEIPT, 2)]


async def test_what_is_left_in_the_store_is_removed_first(bench: Bench, confirming: Confirmed) -> None:
    await bench.remember("a", "b")
    await confirming.erase("a")
    place = place_of(NAMESPACE, "a")
    below: dict[str, Any] = {"below": ["user", NAMESPACE]}
    await bench.add(*names_of(place, 1, 3), place=place, **below)
    newer = point_name(place, 9, 0)
    event = point_name(event_place("s1", "e1"), 1, 0)
    await bench.add(newer, event, place=place, **below)
    assert await confirming.step() == [(RECEIPT, 1)]
    assert set(await bench.points()) == {newer, event, *names_of(place_of(NAMESPACE, "b"), 1, 1)}


async def test_of_an_erased_key_its_own_points_are_looked_at(bench: Bench, confirming: Confirmed) -> None:
    await bench.remember("a", "b")
    await confirming.erase("a", "b")
    confirming.receipts.key = "a"
    for key in ("a", "b"):
        place = place_of(NAMESPACE, key)
        await bench.add(point_name(place, 1, 0), place=place, below=["user", NAMESPACE])
    assert await confirming.step() == [(RECEIPT, 2)]
    assert list(await bench.points()) == [point_name(place_of(NAMESPACE, "b"), 1, 0)]


async def test_a_store_that_is_away_keeps_it_from_being_confirmed(
    bench: Bench, store: WaywardStore, confirming: Confirmed
) -> None:
    await bench.remember("a", "b")
    await confirming.erase("a")
    store.is_away = True
    assert await confirming.step() == []
    store.is_away = False
    bench.own.forgive()
    assert await confirming.step() == [(RECEIPT, 1)]


async def test_a_store_without_the_collection_has_nothing_of_it(bench: Bench, confirming: Confirmed) -> None:
    await bench.remember("a")
    await confirming.erase("a")
    await bench.store.drop_collection(COLLECTION)
    assert await confirming.step() == [(RECEIPT, 1)]


async def test_an_erasure_that_nobody_knows_of_is_let_go(bench: Bench, confirming: Confirmed) -> None:
    await bench.remember("a")
    await confirming.erase("a")
    confirming.receipts.is_known = False
    assert await confirming.step() == []
    removal = await confirming.removal()
    assert removal is not None
    assert removal.confirmed


async def test_one_that_fails_keeps_no_other_tenant_from_its_turn(
    bench: Bench, confirming: Confirmed, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bench.remember("a")
    await confirming.erase("a")
    append = Append(REMOVAL, RECEIPT, Removal(1, 1))
    await bench.ledger.commit(Write("abc", "test", REMOVAL, RECEIPT, lambda heads, now: [append]))
    erasure = confirming.receipts.erasure

    async def failing(tenant: str, receipt: str) -> dict[str, Any] | None:
        if tenant == "abc":
            raise Unavailable("away", retry_after_ms=1)
        return await erasure(tenant, receipt)

    monkeypatch.setattr(confirming.receipts, "erasure", failing)
    assert await confirming.step() == [(RECEIPT, 1)]
