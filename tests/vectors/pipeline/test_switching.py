"""The index of a session is switched on and off later, and its events move with it to another project."""

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from hivemem_contracts.errors import Unavailable
from hivemem_testing.servers import packaged_nats
from hivemem_testing.waiting import eventually
from hivemem_vectors.pipeline.endpoints.peers import AGENT, PAGE, SessionService
from hivemem_vectors.pipeline.entities import MIRROR, event_place
from hivemem_vectors.pipeline.reactions import SessionFollower

from .fleet import ASKING, AskingSessions, Fleet, Tenant, running
from .told import event_told, session_told

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fleet(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Fleet]:
    folder = tmp_path_factory.mktemp("switching")
    with packaged_nats(folder / "bus") as server:
        async with running(server, folder) as fleet:
            yield fleet


@pytest.fixture
def tenant(fleet: Fleet) -> Tenant:
    return fleet.tenant()


async def say_many(tenant: Tenant, count: int) -> list[str]:
    ids = [f"e{number}" for number in range(count)]
    for id in ids:
        await tenant.sessions.say("s1", id, f"text of {id}")
    return ids


async def test_an_index_that_is_switched_on_later_has_the_earlier_events(tenant: Tenant) -> None:
    await tenant.sessions.begin("s1")
    ids = await say_many(tenant, 2 * PAGE + 10)
    await tenant.sessions.ask("update", session_id="s1", metadata=ASKING)
    await eventually(lambda: tenant.are_events_indexed("s1", ids), "all events are indexed")
    await tenant.sessions.say("s1", "later", "and what comes after")
    await eventually(lambda: tenant.are_events_indexed("s1", [*ids, "later"]), "the next one is, too")
    await tenant.sessions.ask("update", session_id="s1", metadata={"index_events": None})
    await eventually(lambda: tenant.are_events_indexed("s1", []), "none is indexed any more")
    await tenant.fleet.bench.check_points(tenant.name)
    await tenant.sessions.say("s1", "unheard", "while it is off")
    await tenant.sessions.ask("update", session_id="s1", metadata=ASKING)
    await eventually(lambda: tenant.are_events_indexed("s1", [*ids, "later", "unheard"]), "all are indexed again")
    await eventually(lambda: tenant.fleet.bench.have_joined(tenant.name), "they are complete")
    await tenant.fleet.bench.check_points(tenant.name)


async def test_the_events_of_a_session_move_with_it(tenant: Tenant) -> None:
    bench = tenant.fleet.bench
    await tenant.sessions.begin("s1", metadata=ASKING, project_id="p")
    ids = await say_many(tenant, 3)
    await eventually(lambda: tenant.are_events_indexed("s1", ids), "the events are indexed")
    embedded = len(bench.embedder.embedded)
    await tenant.sessions.ask("update", session_id="s1", project_id="q")

    async def moved() -> bool:
        mirrors = await bench.ledger.heads(MIRROR, tenant.name, [event_place("s1", id) for id in ids])
        scopes = [head.value.fields["scope"] for head in mirrors.values() if head.value is not None]
        return scopes == [["user=alice", "app=app", "project=q"]] * len(ids)

    await eventually(moved, "the events are those of the other project")
    await eventually(lambda: tenant.fleet.bench.have_joined(tenant.name), "they are complete")
    await bench.check_points(tenant.name)
    assert len(bench.embedder.embedded) == embedded


class Interrupted(AskingSessions):
    """The session service, which is gone after a page of events."""

    async def events(
        self, tenant: str, session_id: str, after: int, most: int, *, agent: str = AGENT
    ) -> AsyncGenerator[list[dict[str, Any]]]:
        async for page in super().events(tenant, session_id, after, most, agent=agent):
            yield page
            raise Unavailable("sessions.events is not answered", retry_after_ms=1)


async def test_a_backfill_that_ends_in_the_middle_is_completed_by_the_next_worker(tenant: Tenant) -> None:
    bench = tenant.fleet.bench
    await tenant.sessions.begin("s1")
    ids = await say_many(tenant, PAGE + 10)
    update = session_told(tenant.name, "s1", "updated", {"metadata": ASKING}, version=2)

    with pytest.raises(Unavailable):
        await SessionFollower(bench.ledger, bench.indexer, Interrupted(tenant.fleet.asking)).handle([update])
    # An event that the workers of the fleet had in hand may be indexed, too.
    found = await tenant.items()
    assert {event_place("s1", id) for id in ids[:PAGE]} <= set(found)

    embedded = len(bench.embedder.embedded)
    await SessionFollower(bench.ledger, bench.indexer, AskingSessions(tenant.fleet.asking)).handle([update])
    assert await tenant.are_events_indexed("s1", ids)
    assert len(bench.embedder.embedded) <= embedded + 10


async def test_an_update_before_the_session_was_noted_is_made_up_for(tenant: Tenant) -> None:
    """Each of two workers has a batch, and the one that switches the index off is faster."""
    bench = tenant.fleet.bench
    await tenant.sessions.begin("s1", metadata=ASKING)
    created = session_told(tenant.name, "s1", "created", await tenant.session("s1"))
    await tenant.sessions.ask("update", session_id="s1", metadata={"index_events": False})
    await tenant.sessions.say("s1", "e1", "text")
    following = SessionFollower(bench.ledger, bench.indexer, SessionService(tenant.fleet.asking))
    await following.handle([created, event_told(tenant.name, "s1", "e1", 1, "text")])
    assert await tenant.are_events_indexed("s1", [])
