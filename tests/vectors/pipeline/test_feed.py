"""Changes by agents on a real bus reach the index by themselves, with two workers that share the work."""

from collections.abc import AsyncIterator

import orjson
import pytest
import pytest_asyncio

from hivemem_contracts.errors import CODE_HEADER, InvalidRequest
from hivemem_contracts.subjects import Address
from hivemem_runtime.ledger.places import below
from hivemem_testing.feed import announced
from hivemem_testing.servers import packaged_nats
from hivemem_testing.waiting import eventually
from hivemem_vectors.pipeline.endpoints.peers import SessionService
from hivemem_vectors.pipeline.entities import FOLLOWED, ITEM, MIRROR, event_place, named, session_of
from hivemem_vectors.pipeline.reactions import SessionFollower, newest, stretches
from hivemem_vectors.upkeep.entities import REMOVAL

from .bench import NAMESPACE, change
from .fleet import ASKING, AskingSessions, Fleet, Tenant, running, session_value
from .told import event_told, received, session_told

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fleet(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Fleet]:
    folder = tmp_path_factory.mktemp("fleet")
    with packaged_nats(folder / "bus") as server:
        async with running(server, folder) as fleet:
            yield fleet


@pytest.fixture
def tenant(fleet: Fleet) -> Tenant:
    return fleet.tenant()


async def test_what_is_put_is_indexed_and_announced(tenant: Tenant) -> None:
    await tenant.memory.put("tea", "likes green tea", metadata={"colour": "green"})
    [told] = await tenant.memory.feed_of(1, "index.>")
    assert told.what == "index.synced"
    assert (told.body["namespace"], told.body["key"], told.body["version"]) == (NAMESPACE, "tea", 1)
    value = told.body["value"]
    assert (value["version"], value["indexed_version"], value["state"]) == (1, 1, "synced")
    await tenant.memory.ask("delete", namespace=NAMESPACE, key="tea")
    await tenant.memory.put("tea", "likes it black")
    await eventually(lambda: tenant.are_indexed({"tea": 3}), "the newest version is indexed")
    await tenant.fleet.bench.check({"tea": (3, "likes it black")}, tenant.name)


async def test_a_thousand_writes_end_with_the_newest_of_each(tenant: Tenant) -> None:
    keys = [f"k{number}" for number in range(250)]
    for version in range(1, 4):
        puts = [{"namespace": NAMESPACE, "key": key, "value": f"{key} {version}"} for key in keys]
        await tenant.memory.ask("put_batch", puts=puts)
    for key in keys[::5]:
        await tenant.memory.ask("delete", namespace=NAMESPACE, key=key)
    expected = dict.fromkeys(keys, 3) | dict.fromkeys(keys[::5])
    await eventually(lambda: tenant.are_indexed(expected), "all are as they are now")
    newest = {key: (3, f"{key} 3") if version else (4, None) for key, version in expected.items()}
    await tenant.fleet.bench.check(newest, tenant.name)
    synced = [told.body["key"] for told in await tenant.memory.feed("index.>")]
    assert set(synced) == set(keys)


async def test_a_value_that_is_too_large_for_the_feed_is_read(tenant: Tenant) -> None:
    text = " ".join(f"word{number}" for number in range(12_000))
    assert len(text) > 65_536
    await tenant.memory.put("large", text)
    await eventually(lambda: tenant.are_indexed({"large": 1}), "it is indexed")
    await tenant.fleet.bench.check({"large": (1, text)}, tenant.name)


async def test_an_erasure_is_counted_for_its_receipt(tenant: Tenant) -> None:
    for key in ("a", "b", "c"):
        await tenant.memory.put(key, f"text {key}")
    receipt = await tenant.memory.ask("erase", namespace=NAMESPACE)
    await tenant.memory.put("c", "a new life")

    async def counted() -> bool:
        head = await tenant.fleet.ledger.head(REMOVAL, tenant.name, receipt["receipt"])
        return head is not None and head.value is not None and head.value.removed == 3

    await eventually(counted, "all three are counted")
    await eventually(lambda: tenant.are_indexed({"a": None, "b": None, "c": 3}), "the new one is indexed")
    await tenant.fleet.bench.check({"a": (2, None), "b": (2, None), "c": (3, "a new life")}, tenant.name)


async def test_what_waits_is_indexed_when_the_embedder_is_there_again(tenant: Tenant) -> None:
    embedder = tenant.fleet.bench.embedder
    embedder.is_down = True
    try:
        for number in range(20):
            await tenant.memory.put(f"k{number}", f"text {number}")

        async def all_wait() -> bool:
            items = await tenant.items()
            return len(items) == 20 and all(item.state == "pending" for item in items.values())

        await eventually(all_wait, "all of them wait")
    finally:
        embedder.is_down = False
    tenant.fleet.bench.let_time_pass()
    await eventually(lambda: tenant.are_indexed({f"k{number}": 1 for number in range(20)}), "the clock has come by")


async def test_a_change_that_is_none_goes_to_the_dead_letters_alone(tenant: Tenant) -> None:
    bad = change("put", {"namespace": NAMESPACE}, "bad", 1, tenant=tenant.name)
    subject, body, headers = await announced(tenant.memory.client, bad, Address(("user", "alice"), "bad"))
    answer = await tenant.memory.client.request(subject, body, timeout=10, headers=headers)
    assert "error" not in orjson.loads(answer.data)
    await tenant.memory.put("good", "text")
    [letter] = await tenant.memory.letters(1)
    assert letter.headers[CODE_HEADER] == str(InvalidRequest.code)
    assert (letter.body["key"], letter.body["version"]) == ("bad", 1)
    await eventually(lambda: tenant.are_indexed({"good": 1}), "the other one is indexed")


async def test_events_are_indexed_where_the_session_asks_for_it(tenant: Tenant) -> None:
    await tenant.sessions.begin("quiet")
    await tenant.sessions.begin("s1", metadata=ASKING)
    await tenant.sessions.begin("half", metadata={"index_events": "yes"})
    for session_id in ("quiet", "s1", "half"):
        await tenant.sessions.say(session_id, "e1", {"text": "hello there"}, author="alice", metadata={"mood": "good"})
        await tenant.sessions.say(session_id, "e2", "good bye")
    await eventually(lambda: tenant.are_events_indexed("s1", ["e1", "e2"]), "both events are indexed")
    id = event_place("s1", "e1")
    head = await tenant.fleet.ledger.head(MIRROR, tenant.name, id)
    assert head is not None
    assert head.value is not None
    assert (head.value.version, head.value.value) == (1, {"text": "hello there"})
    assert head.value.texts == ["alice: hello there"]
    assert (head.value.fields["created_by"], head.value.fields["scope"]) == ("alice", ["user=alice", "app=app"])
    assert head.value.fields["metadata"] == {"mood": "good"}
    assert set(await tenant.fleet.ledger.heads(FOLLOWED, tenant.name, ["quiet", "s1", "half"])) == {"s1"}
    await eventually(lambda: tenant.fleet.bench.have_joined(tenant.name), "neighbours lend their words")
    await tenant.fleet.bench.check_points(tenant.name)
    assert await tenant.memory.feed("index.>") == [], "of events nothing is announced"


async def test_the_events_of_a_deleted_session_go_and_do_not_come_back(tenant: Tenant) -> None:
    await tenant.sessions.begin("s1", metadata=ASKING)
    await tenant.memory.ask("put", namespace="session:s1", key="note", value="not an event")
    for number in range(250):
        await tenant.sessions.say("s1", f"e{number}", f"text {number}")
    events = [f"e{number}" for number in range(250)]

    async def all_indexed() -> bool:
        return sum(item.indexed is not None for item in (await tenant.items()).values()) == 251

    await eventually(all_indexed, "all of them are indexed")
    records = await tenant.fleet.ledger.history(ITEM, tenant.name, event_place("s1", "e7"), limit=10)
    assert len(records) == 1
    told = [event_told(tenant.name, "s1", "e7", 8, "text 7"), event_told(tenant.name, "s1", "new", 251, "late")]
    await tenant.sessions.ask("delete", session_id="s1")

    async def all_gone() -> bool:
        return all(item.indexed is None for item in (await tenant.items()).values())

    await eventually(all_gone, "nothing of it is found any more")
    bench = tenant.fleet.bench
    await SessionFollower(bench.ledger, bench.indexer, SessionService(tenant.fleet.asking)).handle(told)
    assert await all_gone()
    assert await bench.points(tenant.name) == {}
    items = await tenant.items()
    assert all(items[event_place("s1", id)].gone for id in events)


async def test_a_session_may_begin_anew_under_the_same_id(tenant: Tenant) -> None:
    for life in range(2):
        await tenant.sessions.begin("s1", metadata=ASKING)
        await tenant.sessions.say("s1", "e1", f"life {life}")
        await eventually(lambda: tenant.are_events_indexed("s1", ["e1"]), "the event is indexed")
        await tenant.sessions.ask("delete", session_id="s1")
        await eventually(lambda: tenant.are_events_indexed("s1", []), "it is gone")
    await tenant.fleet.bench.check_points(tenant.name)


async def test_a_fork_has_the_events_of_its_own(tenant: Tenant) -> None:
    await tenant.sessions.begin("s1", metadata=ASKING)
    await tenant.sessions.say("s1", "shared", "before the fork")
    await tenant.sessions.ask("fork", session_id="s1", new_session_id="s2")
    await tenant.sessions.say("s2", "own", "after the fork")
    places = {event_place("s1", "shared"), event_place("s2", "own")}

    async def indexed() -> bool:
        return {id for id, item in (await tenant.items()).items() if item.indexed is not None} == places

    await eventually(indexed, "each event is indexed once")


async def test_what_is_too_large_for_the_feed_is_read_of_sessions_too(tenant: Tenant) -> None:
    large = "x" * 70_000
    await tenant.sessions.begin("s1", metadata=ASKING, initial_state={"large": large})
    await tenant.sessions.say("s1", "e1", f"a long story {large}")
    await eventually(lambda: tenant.are_events_indexed("s1", ["e1"]), "the event is indexed")


async def test_a_session_whose_id_has_a_colon_is_not_below_another_one(tenant: Tenant) -> None:
    await tenant.sessions.begin("s:1", metadata=ASKING)
    await tenant.sessions.say("s:1", "e1", "text")
    await eventually(lambda: tenant.are_events_indexed("s:1", ["e1"]), "the event is indexed")
    [id] = await tenant.items()
    low, high = below("session:s")
    assert not low <= id < high
    assert (named(id), session_of(id)) == (("session:s:1", "e1"), "s:1")


async def test_events_that_came_before_their_session_was_noted_are_read(tenant: Tenant) -> None:
    """Each of two workers has a batch, and the one with the events is faster."""
    bench = tenant.fleet.bench
    following = SessionFollower(bench.ledger, bench.indexer, AskingSessions(tenant.fleet.asking))
    await tenant.sessions.begin("s1")
    for number in range(3):
        await tenant.sessions.say("s1", f"e{number}", f"text {number}")
    await following.handle([event_told(tenant.name, "s1", "e0", 1, "text 0")])
    assert await tenant.items() == {}
    value = session_value("s1", "2020-01-01T00:00:00Z", metadata=ASKING)
    await following.handle([session_told(tenant.name, "s1", "created", value)])
    assert await tenant.are_events_indexed("s1", ["e0", "e1", "e2"])


async def test_a_beginning_that_comes_after_the_end_follows_nothing(tenant: Tenant) -> None:
    bench = tenant.fleet.bench
    following = SessionFollower(bench.ledger, bench.indexer, SessionService(tenant.fleet.asking))
    value = session_value("s1", "2020-01-01T00:00:00Z", metadata=ASKING)
    await following.handle([session_told(tenant.name, "s1", "deleted", None, version=2)])
    await following.handle([session_told(tenant.name, "s1", "created", value)])
    await following.handle([event_told(tenant.name, "s1", "e1", 1, "text")])
    assert await tenant.items() == {}
    head = await bench.ledger.head(FOLLOWED, tenant.name, "s1")
    assert head is not None
    assert head.value is not None
    assert head.value.gone


async def test_within_a_stretch_no_session_begins_that_ended() -> None:
    value = session_value("s1", "2020-01-01T00:00:00Z", metadata=ASKING)
    told = [
        session_told("acme", "s1", "created", value),
        event_told("acme", "s1", "e1", 1, "text"),
        session_told("acme", "s1", "deleted", None, version=2),
        session_told("acme", "s2", "created", value, version=1),
        session_told("acme", "s1", "created", value, version=3),
        event_told("acme", "s1", "e1", 1, "text"),
    ]
    first, second = stretches(told)
    assert [len(part) for part in first] == [2, 0, 1, 1]
    assert [len(part) for part in second] == [1, 0, 1, 0]
    assert [[len(part) for part in one] for one in stretches([])] == [[0, 0, 0, 0]]


async def test_of_a_batch_the_newest_of_each_memory_is_told_and_every_erasure() -> None:
    changes = [
        change("put", None, "a", 1),
        change("erased", {"receipt": "r"}, "a", 2),
        change("put", None, "a", 4),
        change("put", None, "a", 3),
        change("put", None, "b", 1),
        change("put", None, "b", 1, tenant="other"),
    ]
    told = [(one.tenant, one.key, one.version) for one in newest([received(each) for each in changes])]
    assert told == [("acme", "a", 2), ("acme", "a", 4), ("acme", "b", 1), ("other", "b", 1)]
