"""Large values over a fleet of real workers: a program reads what it wrote, as long as a session has it."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

import hivemem
import hivemem.sync
from hivemem import AppendEvent, NewEvent
from hivemem_artifacts.worker import ArtifactsSettings
from hivemem_artifacts.worker import build as build_artifacts
from hivemem_contracts.large_values import LARGE, value_name
from hivemem_contracts.limits import LARGE_VALUE_BYTES
from hivemem_runtime.worker import Worker
from hivemem_sessions.worker import SessionsSettings
from hivemem_sessions.worker import build as build_sessions
from hivemem_testing.servers import packaged_nats
from hivemem_testing.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

PAGES = {"pages": [f"{number} " + "é" * 1_000 for number in range(1_500)]}
"""About 3 MB."""

TEXT = "x" * 300_000


@dataclass(frozen=True)
class Fleet:
    url: str
    artifacts: Worker


@pytest.fixture(scope="module")
def nats_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with packaged_nats(tmp_path_factory.mktemp("nats")) as server:
        yield server.url


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fleet(nats_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Fleet]:
    data: Path = tmp_path_factory.mktemp("data")
    sessions = build_sessions(SessionsSettings(nats_url=nats_url, data=data))
    artifacts = build_artifacts(ArtifactsSettings(nats_url=nats_url, data=data))
    for worker in (sessions, artifacts):
        await worker.start()
    yield Fleet(nats_url, artifacts)
    for worker in (artifacts, sessions):
        await worker.stop()


@pytest_asyncio.fixture(loop_scope="module")
async def hive(fleet: Fleet, request: pytest.FixtureRequest) -> AsyncIterator[hivemem.Hive]:
    """A client of a tenant of its own."""
    async with hivemem.connect(fleet.url, tenant=request.node.name) as hive:
        yield hive


async def created(hive: hivemem.Hive, **fields: Any) -> str:
    return (await hive.sessions.create(app_name="app", user_id="ann", **fields)).session_id


async def files_of(hive: hivemem.Hive, session_id: str) -> list[str]:
    return [file.name for file in (await hive.artifacts.list(session_id=session_id)).items]


async def test_large_values_are_read_as_they_were_written(hive: hivemem.Hive) -> None:
    session_id = await created(hive, initial_state={"first": PAGES, "small": 1})
    event = NewEvent(type="page", content=PAGES)
    await hive.sessions.append(session_id=session_id, event=event, state_delta={"second": PAGES})
    await hive.sessions.append_batch(appends=[AppendEvent(session_id=session_id, event=event)])
    await hive.sessions.state_set(session_id=session_id, key="third", value=TEXT)
    view = await hive.sessions.get(session_id=session_id, events=2)
    assert view.session.state == {"first": PAGES, "small": 1, "second": PAGES, "third": TEXT}
    assert [event.content for event in view.events] == [PAGES, PAGES]
    assert view.events[0].state_delta == {"second": PAGES}
    assert (await hive.sessions.state_get(session_id=session_id, key="second")).value == PAGES
    assert len(await files_of(hive, session_id)) == 2

    plain = hive.with_options(large_values=False)
    page = await plain.sessions.events(session_id=session_id, limit=1)
    content: Any = page.items[0].content
    assert content[LARGE]["size"] > 3_000_000
    assert await hive.sessions.resolve(content) == PAGES
    assert (await hive.sessions.resolve(page)).items[0].content == PAGES


async def test_a_durable_write_has_large_values_and_the_feed_their_references(hive: hivemem.Hive) -> None:
    async with hive.changes(since="start") as feed:
        await hive.publish(hive.sessions.create, app_name="app", user_id="ann", initial_state={"page": PAGES})
        async with hive.pipeline() as pipe:
            await pipe.publish(hive.sessions.create, app_name="app", user_id="ann", initial_state={"page": PAGES})
        found = [change async for change in _first(feed, 2)]
    for change in found:
        assert LARGE in change.value.state["page"]
        assert (await hive.sessions.resolve(change.value)).state == {"page": PAGES}
        assert (await hive.sessions.get(session_id=change.namespace)).session.state == {"page": PAGES}


async def _first(feed: hivemem.Feed, count: int) -> AsyncIterator[Any]:
    async for change in feed:
        if change.entity == "session":
            yield change
            count -= 1
            if not count:
                return


async def test_a_repeated_write_is_applied_once(hive: hivemem.Hive) -> None:
    session_id = await created(hive)
    same = hive.with_options(message_id="m1")
    event = NewEvent(type="page", content=PAGES)
    answers = [
        await same.sessions.append(session_id=session_id, event=event, state_delta={"page": PAGES}) for _ in range(2)
    ]
    assert [(answer.sequence, answer.duplicate) for answer in answers] == [(1, False), (1, True)]
    (name,) = await files_of(hive, session_id)
    assert (await hive.artifacts.stat(session_id=session_id, name=name)).version == 1


async def test_values_that_cannot_be_kept_are_refused_by_name(hive: hivemem.Hive) -> None:
    session_id = await created(hive)
    large = "x" * (LARGE_VALUE_BYTES - 1)
    for field, write in (
        ("event.content", hive.sessions.append(session_id=session_id, event=NewEvent(type="t", content=large))),
        (
            "state_delta.user:a",
            hive.sessions.append(session_id=session_id, event=NewEvent(type="t"), state_delta={"user:a": TEXT}),
        ),
    ):
        with pytest.raises(hivemem.TooLarge) as refused:
            await write
        assert refused.value.context["field"] == field
    with pytest.raises(hivemem.InvalidRequest, match=r"value\.1: an integer has 64 bits"):
        await hive.sessions.state_set(session_id=session_id, key="a", value=[TEXT, 2**70])
    with pytest.raises(hivemem.NotFound):
        await hive.sessions.state_set(session_id="nobody", key="a", value=TEXT)
    assert await files_of(hive, session_id) == await files_of(hive, "nobody") == []


async def test_a_session_without_a_file_stays_readable(hive: hivemem.Hive) -> None:
    session_id = await created(hive, initial_state={"page": PAGES, "text": TEXT})
    gone, _ = files = [value_name(value[LARGE]["sha256"]) for value in (await _state(hive, session_id)).values()]
    assert sorted(files) == await files_of(hive, session_id)
    await hive.artifacts.delete(session_id=session_id, name=gone)
    state = (await hive.sessions.get(session_id=session_id)).session.state
    assert state["text"] == TEXT
    assert state["page"] == (await _state(hive, session_id))["page"]
    with pytest.raises(hivemem.NotFound, match="large value does not exist"):
        await hive.sessions.resolve(state["page"])


async def _state(hive: hivemem.Hive, session_id: str) -> dict[str, Any]:
    view = await hive.with_options(large_values=False).sessions.get(session_id=session_id)
    return dict(view.session.state)


async def test_a_reference_with_a_wrong_size_is_no_value(hive: hivemem.Hive) -> None:
    session_id = await created(hive, initial_state={"text": TEXT})
    reference = (await _state(hive, session_id))["text"]
    for size in (1, LARGE_VALUE_BYTES):
        lie = {LARGE: {**reference[LARGE], "size": size}}
        await hive.sessions.state_set(session_id=session_id, key="lie", value=lie)
        assert (await hive.sessions.get(session_id=session_id)).session.state == {"text": TEXT, "lie": lie}


async def test_a_file_of_a_value_is_named_after_its_bytes(hive: hivemem.Hive) -> None:
    with pytest.raises(hivemem.InvalidRequest, match="large values"):
        await hive.artifacts.upload("s1", value_name("ab" * 32), b"small")
    with pytest.raises(hivemem.InvalidRequest, match="large values"):
        await hive.artifacts.begin(session_id="s1", name=value_name("ab" * 32))


async def test_an_answer_has_a_bounded_size(hive: hivemem.Hive) -> None:
    values = {f"page-{number}": {LARGE: {"sha256": f"{number:064}", "size": LARGE_VALUE_BYTES}} for number in range(9)}
    for value in values.values():
        value[LARGE]["url"] = f"hive://{hive.tenant}/s1/{value_name(str(value[LARGE]['sha256']))}"
    await created(hive, session_id="s1", initial_state=values)
    with pytest.raises(hivemem.TooLarge, match="large_values=False"):
        await hive.sessions.get(session_id="s1")


async def test_forks_keep_the_values_of_a_deleted_session(hive: hivemem.Hive) -> None:
    origin = await created(hive, initial_state={"page": PAGES})
    await hive.sessions.append(session_id=origin, event=NewEvent(type="text", content=TEXT))
    await hive.artifacts.upload(origin, "notes.txt", b"its own file")
    fork = (await hive.sessions.fork(session_id=origin)).session_id
    last = (await hive.sessions.fork(session_id=fork)).session_id
    await hive.sessions.delete(session_id=origin)
    await eventually(lambda: _has_files(hive, origin, 2), "only the values are left")
    await created(hive, session_id=origin, initial_state={"page": PAGES})
    await hive.sessions.delete(session_id=fork)

    view = await hive.sessions.get(session_id=last, events=1)
    assert (view.session.state["page"], view.events[0].content) == (PAGES, TEXT)
    assert (await hive.artifacts.gc(grace_seconds=0)).removed == 1
    await hive.sessions.delete(session_id=last)
    await eventually(lambda: _has_files(hive, origin, 1), "the value of the new session is left")
    assert (await hive.sessions.get(session_id=origin)).session.state == {"page": PAGES}
    await hive.sessions.delete(session_id=origin)
    await eventually(lambda: _has_files(hive, origin, 0), "nothing is left")
    assert (await hive.artifacts.gc(grace_seconds=0)).removed == 2


async def _has_files(hive: hivemem.Hive, session_id: str, count: int) -> bool:
    return len(await files_of(hive, session_id)) == count


async def test_the_synchronous_client_has_large_values(hive: hivemem.Hive, fleet: Fleet) -> None:
    def work() -> None:
        with hivemem.sync.connect(fleet.url, tenant=hive.tenant) as sync:
            session = sync.sessions.create(app_name="app", user_id="ann", initial_state={"text": TEXT})
            assert sync.sessions.resolve(session).state == {"text": TEXT}
            assert sync.sessions.get(session_id=session.session_id).session.state == {"text": TEXT}

    await asyncio.to_thread(work)


async def test_without_an_artifacts_worker_the_error_says_so(hive: hivemem.Hive, fleet: Fleet) -> None:
    session_id = await created(hive, initial_state={"text": TEXT})
    await fleet.artifacts.stop()
    try:
        hasty = hive.with_options(retries=0)
        with pytest.raises(hivemem.Unavailable, match=r"value: 300002 bytes .* no artifacts worker answers"):
            await hasty.sessions.state_set(session_id=session_id, key="more", value=TEXT)
        with pytest.raises(hivemem.Unavailable, match="no artifacts worker answers"):
            await hasty.sessions.get(session_id=session_id)
        assert LARGE in (await _state(hive, session_id))["text"]
    finally:
        await fleet.artifacts.start()
