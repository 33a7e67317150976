"""A fork copies a namespace as of a moment, completely and once, even after interruptions."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import pytest_asyncio

from hivemem_contracts.errors import Unavailable
from hivemem_contracts.identifiers import format_time
from hivemem_memory.endpoints.forks import SLICE_ITEMS
from hivemem_memory.entities.memories import MEMORY
from hivemem_runtime.ledger.places import place_of
from hivemem_runtime.ledger.port import Ledger, Outcome, Write

from .exact import exactly
from .hive import LIFE_SECONDS, NAMESPACE, Agent, Body, Refused, eventually, source
from .test_snapshot import put_many

pytestmark = pytest.mark.asyncio(loop_scope="session")

INTO = "project:copy"
FULL: Body = {
    "memory_type": "procedural",
    "metadata": {"text": "t"},
    "importance": 0.5,
    "valid_from": "2020-01-01T00:00:00.000000Z",
    "valid_to": "2999-01-01T00:00:00.000000Z",
    "expires_at": "2999-01-01T00:00:00.000000Z",
    "source": source(session_id="s"),
}


async def fork(bot: Agent, into: str = INTO, *, id: str | None = None, **fields: Any) -> Body:
    return await exactly(bot, "fork", {"namespace": NAMESPACE, "into": into, **fields}, id=id)


async def memories(bot: Agent, prefix: str = INTO) -> list[Body]:
    return await bot.pages("list", prefix=prefix, limit=1_000)


@pytest_asyncio.fixture(loop_scope="session")
async def failing(bot: Agent, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator["Failing"]:
    yield Failing(bot.ledger, monkeypatch)


class Failing:
    """A ledger that becomes unavailable after `left` slices of a fork."""

    def __init__(self, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
        self._commit = ledger.commit
        self.left = 1_000
        monkeypatch.setattr(ledger, "commit", self.commit)

    def commit(self, write: Write) -> "asyncio.Future[Outcome]":
        if write.request_id is not None and "#" in write.request_id.name:
            self.left -= 1
            if self.left < 0:
                future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
                future.set_exception(Unavailable("pulled out", retry_after_ms=1))
                return future
        return self._commit(write)


async def test_a_copy_says_the_same_and_knows_where_it_comes_from(bot: Agent) -> None:
    await bot.put("k", 1)
    await bot.put("k", {"v": [1]}, **FULL)
    await bot.ask("put", namespace=NAMESPACE + ":x:y", key="l", value=2)
    original = await bot.memory("k")
    answer = await fork(bot.called("eve"))
    assert {name: answer[name] for name in ("namespace", "into", "entries", "duplicate")} == {
        "namespace": NAMESPACE,
        "into": INTO,
        "entries": 2,
        "duplicate": False,
    }
    copied, below = await memories(bot)
    assert {name: copied[name] for name in FULL} == FULL
    assert (copied["value"], copied["digest"]) == (original["value"], original["digest"])
    assert (copied["version"], copied["created_by"], copied["updated_by"]) == (1, "eve", "eve")
    assert copied["created_at"] == copied["updated_at"] > answer["as_of"]
    names = ("namespace", "key", "version", "created_by", "created_at", "updated_by", "updated_at")
    assert copied["copied_from"] == {name: original[name] for name in names}
    assert (below["namespace"], below["key"]) == (INTO + ":x:y", "l")
    (line,) = (await bot.ask("history", namespace=INTO, key="k"))["items"]
    assert line["operation"] == "fork"


async def test_a_copy_goes_its_own_way(bot: Agent) -> None:
    await bot.put("k", 1)
    await fork(bot)
    await bot.ask("put", namespace=INTO, key="k", value=2)
    await bot.put("k", 3)
    (copied,) = await memories(bot)
    assert (copied["value"], copied["copied_from"]["version"]) == (2, 1)
    assert (await bot.memory("k"))["value"] == 3


async def test_as_it_was_at_a_moment(bot: Agent) -> None:
    for key in ("a", "b"):
        await bot.put(key, "then")
    at = (await bot.memory("b"))["updated_at"]
    await bot.put("a", "now")
    await bot.delete("b")
    await bot.put("c", "now")
    answer = await fork(bot, as_of=at)
    assert answer["as_of"] == at
    assert [(memory["key"], memory["value"]) for memory in await memories(bot)] == [("a", "then"), ("b", "then")]


async def test_a_time_of_expiry_that_has_passed_is_dropped(bot: Agent) -> None:
    expires_at = datetime.now(UTC) + timedelta(seconds=LIFE_SECONDS)
    await bot.put("k", 1, expires_at=format_time(expires_at))
    original = await bot.memory("k")
    await eventually(lambda: datetime.now(UTC) > expires_at, "it has expired")
    assert (await fork(bot, "project:now"))["entries"] == 0
    await fork(bot, as_of=original["updated_at"])
    (copied,) = await memories(bot)
    assert (copied["value"], copied["expires_at"]) == (1, None)
    assert copied["digest"] != original["digest"]
    await bot.put("same", 1)
    assert copied["digest"] == (await bot.memory("same"))["digest"]


async def test_an_empty_namespace_can_be_forked(bot: Agent) -> None:
    answer = await fork(bot, id=bot.id("f"))
    assert (answer["entries"], answer["duplicate"]) == (0, False)
    assert await fork(bot, id=bot.id("f")) == answer | {"duplicate": True}


@pytest.mark.parametrize("where", [INTO, INTO + ":x", INTO + ":x:y:z"])
async def test_nothing_may_live_where_it_goes(bot: Agent, where: str) -> None:
    await bot.put("k", 1)
    await bot.ask("put", namespace=where, key="other", value=1)
    refused = await bot.refusal("fork", namespace=NAMESPACE, into=INTO)
    assert (refused.code, refused.context) == (40901, {"namespace": where, "key": "other"})
    await bot.ask("delete", namespace=where, key="other")
    assert (await fork(bot))["entries"] == 1


async def test_neighbours_are_not_in_the_way(bot: Agent) -> None:
    await bot.put("k", 1)
    for where in ("project:copyx", "project:cop", "user:copy"):
        await bot.ask("put", namespace=where, key="k", value=1)
    assert (await fork(bot))["entries"] == 1


async def test_a_copy_on_something_deleted_begins_a_new_life(bot: Agent) -> None:
    await bot.put("k", 1)
    await bot.called("eve").ask("put", namespace=INTO, key="k", value="old", metadata={"old": 1})
    await bot.ask("delete", namespace=INTO, key="k")
    await fork(bot)
    (copied,) = await memories(bot)
    assert (copied["version"], copied["value"], copied["metadata"], copied["created_by"]) == (3, 1, {}, "bot")


@pytest.mark.parametrize("into", [NAMESPACE, NAMESPACE + ":x", "user:alice:x:y"])
async def test_one_cannot_lie_in_the_other(bot: Agent, into: str) -> None:
    await bot.put("k", 1)
    for namespace, target in ((NAMESPACE, into), (into, NAMESPACE)):
        refused = await bot.refusal("fork", namespace=namespace, into=target)
        assert (refused.code, refused.context["field"]) == (40001, "into")


async def test_names_that_would_grow_too_long_are_refused_before_anything_is_copied(bot: Agent) -> None:
    await bot.put("k", 1)
    await bot.ask("put", namespace=NAMESPACE + ":" + "x" * 200, key="k", value=1)
    into = "project:" + "y" * 100
    refused = await bot.refusal("fork", namespace=NAMESPACE, into=into)
    assert (refused.code, refused.context["field"]) == (40001, "into")
    assert await memories(bot, "project") == []
    await bot.ask("delete", namespace=NAMESPACE + ":" + "x" * 200, key="k")
    assert (await fork(bot, into))["entries"] == 1


async def test_subjects_that_would_grow_too_long_are_refused_as_well(bot: Agent) -> None:
    await bot.put("🙂" * 256, 1)
    refused = await bot.refusal("fork", namespace=NAMESPACE, into="project:" + "🙂" * 100)
    assert refused.code == 41301
    assert await memories(bot, "project") == []


async def test_a_repeated_request_answers_the_same_and_copies_nothing(bot: Agent) -> None:
    await bot.put("k", 1)
    first = await fork(bot, id=bot.id("f"))
    await bot.put("l", 1)
    await bot.ask("delete", namespace=INTO, key="k")
    assert await fork(bot, id=bot.id("f")) == first | {"duplicate": True}
    assert await memories(bot) == []


async def test_a_large_namespace_takes_several_slices(bot: Agent) -> None:
    count = 2 * SLICE_ITEMS + 100
    keys = await put_many(bot, count, "then")
    answer, _ = await asyncio.gather(fork(bot), bot.put(keys[-1], "now"))
    assert answer["entries"] == count
    copied = await memories(bot)
    assert [memory["key"] for memory in copied] == keys
    assert {memory["version"] for memory in copied} == {1}
    assert {memory["value"] for memory in copied[:-1]} == {"then"}


@pytest.mark.parametrize("slices", [0, 1, 2])
async def test_a_fork_that_was_broken_off_goes_on_where_it_was(bot: Agent, failing: Failing, slices: int) -> None:
    count = 2 * SLICE_ITEMS + 100
    keys = await put_many(bot, count, "then")
    failing.left = slices
    refused = await bot.refusal("fork", namespace=NAMESPACE, into=INTO, id=bot.id("f"))
    assert refused.error["retryable"]
    assert len(await memories(bot)) == slices * SLICE_ITEMS
    await put_many(bot, count, "now")
    await bot.put("later", "now")
    failing.left = 1_000
    answer = await fork(bot, id=bot.id("f"))
    assert (answer["entries"], answer["duplicate"]) == (count, False)
    copied = await memories(bot)
    assert [(memory["key"], memory["value"], memory["version"]) for memory in copied] == [
        (key, "then", 1) for key in keys
    ]
    assert await fork(bot, id=bot.id("f")) == answer | {"duplicate": True}


async def test_two_runs_of_one_request_share_the_work(bot: Agent) -> None:
    keys = await put_many(bot, 2 * SLICE_ITEMS + 100)
    answers = await asyncio.gather(*[fork(bot, id=bot.id("f")) for _ in range(3)])
    assert {answer["entries"] for answer in answers} == {len(keys)}
    copied = await memories(bot)
    assert [(memory["key"], memory["version"]) for memory in copied] == [(key, 1) for key in keys]


async def test_what_was_written_there_meanwhile_is_not_overwritten(bot: Agent, failing: Failing) -> None:
    keys = await put_many(bot, SLICE_ITEMS + 100)
    failing.left = 1
    await bot.refusal("fork", namespace=NAMESPACE, into=INTO, id=bot.id("f"))
    await bot.ask("put", namespace=INTO, key=keys[-1], value="mine")
    failing.left = 1_000
    refused = await bot.refusal("fork", namespace=NAMESPACE, into=INTO, id=bot.id("f"))
    assert (refused.code, refused.context) == (40901, {"namespace": INTO, "key": keys[-1]})
    assert (await bot.ask("get", namespace=INTO, key=keys[-1]))["value"] == "mine"


async def test_what_was_erased_meanwhile_is_not_brought_back(bot: Agent, failing: Failing) -> None:
    keys = await put_many(bot, SLICE_ITEMS + 3, "then")
    failing.left = 1
    await bot.refusal("fork", namespace=NAMESPACE, into=INTO, id=bot.id("f"))
    for key in keys[-3:-1]:
        await erase(bot, NAMESPACE, key)
    await written(bot, keys[-2], "another life")
    failing.left = 1_000
    assert (await fork(bot, id=bot.id("f")))["entries"] == SLICE_ITEMS + 1
    assert [memory["key"] for memory in await memories(bot)] == [*keys[:-3], keys[-1]]


async def erase(bot: Agent, namespace: str, key: str) -> None:
    async def erased() -> bool:
        await bot.announced()
        try:
            place = place_of(namespace, key)
            return await bot.ledger.erase(MEMORY, bot.tenant, place, actor="eve", cause="gdpr") is not None
        except Unavailable:
            return False

    await eventually(erased, "it is erased")


async def written(bot: Agent, key: str, value: str) -> None:
    """Put until it is accepted: a key begins a new life once its erasure is announced."""

    async def put() -> bool:
        try:
            await bot.put(key, value)
        except Refused as refused:
            if not refused.error["retryable"]:
                raise
            return False
        return True

    await eventually(put, "the erasure is announced")


async def test_one_id_is_for_one_fork(bot: Agent) -> None:
    await bot.put("k", 1)
    await fork(bot, id=bot.id("f"))
    refused = await bot.refusal("fork", namespace=NAMESPACE, into="project:other", id=bot.id("f"))
    assert (refused.code, refused.context["field"]) == (40906, "Nats-Msg-Id")


async def test_large_memories_are_copied_a_few_at_a_time(bot: Agent) -> None:
    for number in range(7):
        await bot.put(f"k{number}", f"{number}" + "x" * 500_000)
    assert (await fork(bot))["entries"] == 7
    found = await bot.pages("list", prefix=INTO)
    assert [memory["value"][0] for memory in found] == list("0123456")


async def test_a_fork_can_be_published(bot: Agent) -> None:
    await bot.put("k", 1)
    await bot.command("fork", INTO, {"namespace": NAMESPACE, "into": INTO}, id=bot.id("f"))

    async def there() -> bool:
        return bool(await memories(bot))

    await eventually(there, "the fork is made")
    (copied,) = await memories(bot)
    assert copied["value"] == 1
    told = await bot.feed_of(2)
    assert [(change.body["namespace"], change.body["operation"]) for change in told] == [
        (NAMESPACE, "put"),
        (INTO, "put"),
    ]
    assert told[1].body["cause"] == bot.id("f")


async def test_scratch_memories_may_be_forked_like_any(bot: Agent) -> None:
    await bot.ask("put", namespace="temp:s1", key="k", value=1)
    answer = await bot.ask("fork", namespace="temp:s1", into="session:s2:kept")
    assert answer["entries"] == 1
    assert (await bot.ask("get", namespace="session:s2:kept", key="k"))["value"] == 1


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"into": "project"}, "into"),
        ({"namespace": "user"}, "namespace"),
        ({"into": "elsewhere:x"}, "into"),
        ({"as_of": "now"}, "as_of"),
    ],
)
async def test_what_is_no_namespace_is_refused_by_name(bot: Agent, fields: Body, field: str) -> None:
    refused = await bot.refusal("fork", {"namespace": NAMESPACE, "into": INTO, **fields})
    assert (refused.code, refused.context["field"]) == (40001, field)
