"""A session's temporary memories are deleted when it ends, and all of its memories when it is deleted."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hivemem_contracts.errors import Unavailable
from hivemem_memory.endpoints import erasures
from hivemem_memory.entities.memories import receipt_id
from hivemem_memory.reactions import sessions

from .changes import delete, tell_session, terminate
from .hive import Agent, Body, eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")

PLACES = ("temp:s1", "temp:s1:deep", "session:s1", "session:s1:deep", "temp:s10", "session:s10", "user:s1")


async def remember(bot: Agent, *namespaces: str) -> None:
    for namespace in namespaces:
        await bot.ask("put", namespace=namespace, key="a", value=1)


async def left(bot: Agent, *, deleted: bool = False) -> set[str]:
    """Return the namespaces that have memories; with `deleted`, deleted memories count, too."""
    found: set[str] = set()
    for prefix in ("temp", "session", "user"):
        found |= {each["namespace"] for each in await bot.pages("list", prefix=prefix, include_deleted=deleted)}
    return found


async def gone(bot: Agent, *namespaces: str, deleted: bool = False) -> None:
    async def all_gone() -> bool:
        return not await left(bot, deleted=deleted) & set(namespaces)

    await eventually(all_gone, f"nothing is left in {namespaces}")


async def test_temporary_memories_are_deleted_when_their_session_is_terminated(bot: Agent) -> None:
    await remember(bot, *PLACES)
    await terminate(bot.client, bot.tenant, "s1", actor="owner", cause="m7")
    await gone(bot, "temp:s1", "temp:s1:deep")
    assert await left(bot) == {"session:s1", "session:s1:deep", "temp:s10", "session:s10", "user:s1"}
    (version, _) = await bot.pages("history", namespace="temp:s1", key="a")
    assert (version["operation"], version["updated_by"], version["request_id"]) == ("delete", "owner", "m7")
    assert (await bot.ask("restore", namespace="temp:s1", key="a"))["version"] == 3


async def test_other_changes_of_a_session_mean_nothing(bot: Agent) -> None:
    await remember(bot, "temp:s1", "session:s1", "temp:end")
    paused = {"status": "paused", "previous_status": "active", "state_delta": None}
    await tell_session(bot.client, bot.tenant, "s1", "status_changed", paused)
    await tell_session(bot.client, bot.tenant, "s1", "archived", {"status": "archived"}, version=2)
    await tell_session(bot.client, bot.tenant, "s1", "status_changed", None, version=3)
    await tell_session(bot.client, bot.tenant, "s1", "status_changed", ["terminated"], version=4)
    await tell_session(bot.client, bot.tenant, "s1", "nothing", {"status": {"x": 1}}, version=5)
    await terminate(bot.client, bot.tenant, "end")
    await gone(bot, "temp:end")
    assert await left(bot) == {"temp:s1", "session:s1"}


async def test_everything_of_a_deleted_session_is_erased(bot: Agent) -> None:
    await remember(bot, *PLACES)
    await delete(bot.client, bot.tenant, "s1", actor="owner", cause="m7", version=9)
    await gone(bot, "temp:s1", "temp:s1:deep", "session:s1", "session:s1:deep", deleted=True)
    assert await left(bot) == {"temp:s10", "session:s10", "user:s1"}
    receipt = receipt_id(bot.tenant, "owner", "m7")
    found: Body = {}

    async def done() -> bool:
        found.update(await bot.ask("erasure", receipt=receipt))
        return bool(found["status"] == "done")

    await eventually(done, "the erasure is done")
    assert (found["requested_by"], found["entries"], found["versions"]) == ("owner", 4, 4)
    told = [each.body for each in await bot.feed("memory.>") if each.what == "memory.erased"]
    assert len(told) == 4
    assert {(each["actor"], each["cause"], each["value"]["receipt"]) for each in told} == {("owner", "m7", receipt)}


async def test_a_session_without_memories_leaves_no_receipt(bot: Agent) -> None:
    await remember(bot, "temp:end")
    await delete(bot.client, bot.tenant, "s1", cause="m7")
    await delete(bot.client, bot.tenant, "end", cause="m8")
    await gone(bot, "temp:end", deleted=True)
    assert (await bot.refusal("erasure", receipt=receipt_id(bot.tenant, "owner", "m7"))).code == 40401


async def test_a_deletion_without_a_cause_erases_all_the_same(bot: Agent) -> None:
    await remember(bot, "temp:s1", "session:s1")
    await delete(bot.client, bot.tenant, "s1", cause=None)
    await gone(bot, "temp:s1", "session:s1", deleted=True)
    assert {each.body["value"]["receipt"] for each in await bot.feed() if each.what == "memory.erased"} == {None}


async def test_a_receipt_that_is_taken_does_not_keep_a_session_s_memories(bot: Agent) -> None:
    """An agent may use one id for a request to each of two services."""
    owner = bot.called("owner")
    await remember(bot, "temp:s1", "session:s1", "user:s1")
    await owner.ask("erase", namespace="user:s1", id="m7")
    await delete(bot.client, bot.tenant, "s1", actor="owner", cause="m7")
    await gone(bot, "temp:s1", "session:s1", deleted=True)
    assert (await owner.ask("erasure", receipt=receipt_id(bot.tenant, "owner", "m7")))["namespace"] == "user:s1"


async def test_what_came_after_the_end_of_a_session_is_spared(bot: Agent) -> None:
    """Another session may have its id by the time that this worker gets the change."""
    before = datetime.now(UTC) - timedelta(seconds=5)
    await remember(bot, "temp:s1", "session:s1", "temp:end")
    await terminate(bot.client, bot.tenant, "s1", at=before)
    await delete(bot.client, bot.tenant, "s1", version=2, at=before)
    await delete(bot.client, bot.tenant, "end")
    await gone(bot, "temp:end", deleted=True)
    assert await left(bot) == {"temp:s1", "session:s1"}


async def test_an_end_that_is_told_again_does_nothing_more(bot: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rebuilt feed repeats the change, and a session of the same id may have begun since."""
    monkeypatch.setattr(sessions, "SKEW_MICROSECONDS", 0)
    monkeypatch.setattr(erasures, "SKEW_MICROSECONDS", 0)
    await remember(bot, "temp:s1", "session:s1", "temp:s2", "temp:end")
    at = datetime.now(UTC)
    await terminate(bot.client, bot.tenant, "s1", at=at)
    await terminate(bot.client, bot.tenant, "s2", version=5, at=at)
    await gone(bot, "temp:s1", "temp:s2")
    await delete(bot.client, bot.tenant, "s1", version=2, at=at, cause="m7")
    await gone(bot, "temp:s1", "session:s1", deleted=True)
    await remember(bot, "temp:s1", "session:s1")
    await bot.ask("restore", namespace="temp:s2", key="a")
    await terminate(bot.client, bot.tenant, "s1", at=at)
    await delete(bot.client, bot.tenant, "s1", version=2, at=at, cause="m7")
    await terminate(bot.client, bot.tenant, "s2", version=5, at=at)
    await delete(bot.client, bot.tenant, "end", cause="m8")
    await gone(bot, "temp:end", deleted=True)
    assert await left(bot) == {"temp:s1", "session:s1", "temp:s2"}


async def test_an_id_with_a_colon_names_no_namespace(bot: Agent) -> None:
    await remember(bot, "temp:a:b", "session:a:b", "temp:end")
    await terminate(bot.client, bot.tenant, "a:b")
    await delete(bot.client, bot.tenant, "a:b", version=2)
    await delete(bot.client, bot.tenant, "end")
    await gone(bot, "temp:end", deleted=True)
    assert await left(bot) == {"temp:a:b", "session:a:b"}


async def test_a_deleted_session_leaves_the_sources_of_memories(bot: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "SLICE", 2)
    source = {"session_id": "app:s1", "event_id": "e1", "task_id": "t1"}
    puts: list[Any] = [{"namespace": "user:bo", "key": key, "value": key, "source": source} for key in "abcd"]
    other = {"namespace": "user:bo", "key": "other", "value": 1, "source": {"session_id": "s10"}}
    await bot.ask("put_batch", puts=[*puts, other])
    await bot.ask("delete", namespace="user:bo", key="d")
    await delete(bot.client, bot.tenant, "app:s1", actor="owner", cause="m7")

    async def unlinked() -> bool:
        found = await bot.pages("list", prefix="user:bo")
        return [each["source"]["session_id"] for each in found] == [None, None, None, "s10"]

    await eventually(unlinked, "no source names the session")
    version = (await bot.pages("history", namespace="user:bo", key="a"))[0]
    assert (version["operation"], version["version"], version["updated_by"]) == ("unlink", 2, "owner")
    assert (version["value"], version["source"]["event_id"], version["source"]["task_id"]) == ("a", None, "t1")
    assert (await bot.ask("get", namespace="user:bo", key="d", include_deleted=True))["version"] == 2


async def test_many_are_deleted_and_erased_in_slices(bot: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "SLICE", 3)
    monkeypatch.setattr(erasures, "SLICE", 3)
    puts: list[Any] = [
        {"namespace": f"{root}:s1", "key": f"k{number}", "value": 1}
        for root in ("temp", "session")
        for number in range(10)
    ]
    await bot.ask("put_batch", puts=puts)
    await terminate(bot.client, bot.tenant, "s1")
    await gone(bot, "temp:s1")
    assert (await bot.ask("count", prefix="session"))["count"] == 10
    await delete(bot.client, bot.tenant, "s1", version=2, cause="m7")
    await gone(bot, "temp:s1", "session:s1", deleted=True)
    receipt = receipt_id(bot.tenant, "owner", "m7")

    async def done() -> bool:
        found = await bot.ask("erasure", receipt=receipt)
        return (found["status"], found["entries"], found["versions"]) == ("done", 20, 30)

    await eventually(done, "all of them are counted")


async def test_a_store_that_is_away_for_a_moment_keeps_nothing_alive(
    bot: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erasures, "ABANDONED_MICROSECONDS", 0)
    erase, failures = bot.ledger.erase, list[str]()

    async def away(entity: Any, tenant: str, id: str, **options: Any) -> Any:
        if tenant == bot.tenant and len(failures) < 3:
            failures.append(id)
            raise Unavailable("away", retry_after_ms=1)
        return await erase(entity, tenant, id, **options)

    monkeypatch.setattr(bot.ledger, "erase", away)
    await remember(bot, "temp:s1", "session:s1")
    await delete(bot.client, bot.tenant, "s1", cause="m7")
    await gone(bot, "temp:s1", "session:s1", deleted=True)
    assert len(failures) == 3
