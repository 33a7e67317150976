"""Many puts in one request: each has its own outcome, and a repeated request does nothing."""

import asyncio
from typing import Any

import orjson
import pytest

from hivemem_contracts.errors import Unavailable
from hivemem_contracts.limits import BATCH_ITEMS, MEMORY_VALUE_BYTES
from hivemem_memory.entities.answers import ANSWER

from .hive import NAMESPACE, Agent, Body

pytestmark = pytest.mark.asyncio(loop_scope="session")


def put(key: str, value: Any = None, namespace: str = NAMESPACE, **fields: Any) -> Body:
    return {"namespace": namespace, "key": key, "value": value, **fields}


async def batch(bot: Agent, *puts: Body, id: str | None = None) -> list[Body]:
    results: list[Body] = (await bot.ask("put_batch", puts=list(puts), id=id))["results"]
    return results


def short(results: list[Body]) -> list[Any]:
    """Return the version and `created` of each put, or its error code; a star marks a repeated one."""
    return [
        result["error"]["code"]
        if result["error"]
        else (result["version"], result["created"], *("*" if result["duplicate"] else ""))
        for result in results
    ]


async def test_each_put_has_its_outcome_in_the_order_of_the_request(bot: Agent) -> None:
    await bot.put("b", 0)
    results = await batch(bot, put("a", 1), put("b", 2), put("a", 3, "app:x:y"))
    assert results == [
        {"namespace": NAMESPACE, "key": "a", "version": 1, "created": True, "duplicate": False, "error": None},
        {"namespace": NAMESPACE, "key": "b", "version": 2, "created": False, "duplicate": False, "error": None},
        {"namespace": "app:x:y", "key": "a", "version": 1, "created": True, "duplicate": False, "error": None},
    ]
    assert (await bot.memory("b"))["value"] == 2


async def test_a_refused_put_keeps_no_other_from_being_done(bot: Agent) -> None:
    await bot.put("kept", {"n": 1})
    results = await batch(
        bot,
        put("a", 1, expect_version=7),
        put("b", 2),
        put("c", 3, valid_from="2026-01-02T00:00:00Z", valid_to="2026-01-01T00:00:00Z"),
        put("d", 4, expires_at="2026-01-01T00:00:00Z"),
        put("kept", 5, expect_version=0),
        put("e", 6, lease={"namespace": NAMESPACE, "key": "e", "token": 3}),
        put("🐝" * 250, 7, "user:" + "🐝" * 250),
        put("f", 8),
    )
    assert short(results) == [40902, (1, True), 40001, 40001, 40902, 40902, 41301, (1, True)]
    assert results[0]["error"]["context"] == {"expected": 7, "actual": 0}
    assert (results[2]["namespace"], results[2]["key"]) == (NAMESPACE, "c")
    assert results[2]["error"]["context"] == {"field": "valid_to"}
    assert results[3]["error"]["context"] == {"field": "expires_at"}
    assert results[6]["error"]["context"]["field"] == "subject"
    assert await bot.keys() == ["b", "f", "kept"]


async def test_a_put_sees_those_before_it_in_the_batch(bot: Agent) -> None:
    results = await batch(
        bot,
        put("k", 1, expect_version=0, metadata={"m": 1}),
        put("other", 1),
        put("k", 2, expect_version=1),
        put("k", 3, expect_version=1),
        put("k", 4, importance=0.5),
    )
    assert short(results) == [(1, True), (1, True), (2, False), 40902, (3, False)]
    versions = await bot.versions("k")
    assert [version["value"] for version in versions] == [1, 2, 4]
    assert [version["importance"] for version in versions] == [None, None, 0.5]
    assert {orjson.dumps(version["metadata"]) for version in versions} == {b'{"m":1}'}
    times = [version["updated_at"] for version in versions]
    assert times == sorted(set(times))
    told = await bot.feed("memory.user.alice.%k.k")
    assert [(change.body["version"], change.body["value"]["value"]) for change in told] == [(1, 1), (2, 2), (3, 4)]


async def test_a_repeated_batch_answers_the_first_outcome(bot: Agent) -> None:
    puts = [put("a", 1), put("a", 2), put("b", 3)]
    assert short(await batch(bot, *puts, id="m1")) == [(1, True), (2, False), (1, True)]
    await bot.put("a", "meanwhile")
    for _ in range(2):
        assert short(await batch(bot, *puts, id="m1")) == [(1, True, "*"), (2, False, "*"), (1, True, "*")]
    assert (await bot.memory("a"))["version"] == 3
    answers = await bot.ledger.head(ANSWER, bot.tenant, "memory.put_batch|bot|m1")
    assert answers is not None
    assert answers.version == 1


async def test_a_repeated_batch_does_what_was_refused_once_that_is_allowed(bot: Agent) -> None:
    puts = [put("a", 1), put("b", 2, expect_version=1)]
    assert short(await batch(bot, *puts, id="m1")) == [(1, True), 40902]
    assert short(await batch(bot, *puts, id="m1")) == [(1, True, "*"), 40902]
    await bot.put("b", 1)
    assert short(await batch(bot, *puts, id="m1")) == [(1, True, "*"), (2, False)]
    assert short(await batch(bot, *puts, id="m1")) == [(1, True, "*"), (2, False, "*")]
    assert short(await batch(bot, *puts)) == [(2, False), 40902]


async def test_a_batch_of_which_nothing_is_done_leaves_no_trace(bot: Agent) -> None:
    puts = [put("a", 1, expect_version=1), put("b", 2, expect_version=1)]
    assert short(await batch(bot, *puts, id="m1")) == [40902, 40902]
    assert await bot.ledger.head(ANSWER, bot.tenant, "memory.put_batch|bot|m1") is None
    await bot.put("a", 0)
    assert short(await batch(bot, *puts, id="m1")) == [(2, False), 40902]


async def test_an_id_belongs_to_one_batch(bot: Agent) -> None:
    await batch(bot, put("a", 1), id="m1")
    refused = await bot.refusal("put_batch", puts=[put("b", 1)], id="m1")
    assert (refused.code, refused.context) == (40906, {"field": "Nats-Msg-Id"})
    assert short(await batch(bot.called("other"), put("b", 1), id="m1")) == [(1, True)]


async def test_two_of_the_same_at_once_are_done_once(bot: Agent) -> None:
    puts = [put(f"k{n}", n) for n in range(50)]
    answers = await asyncio.gather(*(batch(bot, *puts, id="m1") for _ in range(5)))
    new = [result for answer in answers for result in answer if not result["duplicate"]]
    assert len(new) == 50
    assert {result["version"] for answer in answers for result in answer} == {1}


async def test_batches_and_puts_on_the_same_keys_lose_nothing(bot: Agent) -> None:
    puts = [put(f"k{n % 5}", n) for n in range(20)]
    await asyncio.gather(*(batch(bot, *puts) for _ in range(10)), *(bot.put("k0", n) for n in range(40)))
    assert (await bot.memory("k0"))["version"] == 80
    assert (await bot.memory("k4"))["version"] == 40


async def test_the_largest_batch(bot: Agent) -> None:
    puts = [put(f"k{n:04}", {"n": n}) for n in range(BATCH_ITEMS)]
    results = await batch(bot, *puts, id="m1")
    assert [result["key"] for result in results] == [f"k{n:04}" for n in range(BATCH_ITEMS)]
    assert {tuple(each) for each in short(results)} == {(1, True)}
    assert (await bot.ask("count", prefix=NAMESPACE))["count"] == BATCH_ITEMS
    assert {tuple(each) for each in short(await batch(bot, *puts, id="m1"))} == {(1, True, "*")}
    assert len(await bot.feed_of(BATCH_ITEMS)) == BATCH_ITEMS
    refused = await bot.refusal("put_batch", puts=[*puts, put("one-more")])
    assert (refused.code, refused.context["field"]) == (40001, "puts")


async def test_what_is_wrong_in_a_batch_is_named(bot: Agent) -> None:
    refused = await bot.refusal("put_batch", puts=[])
    assert (refused.code, refused.context["field"]) == (40001, "puts")
    refused = await bot.refusal("put_batch", puts=[put("a"), put("b", namespace="nowhere")])
    assert (refused.code, refused.context["field"]) == (40001, "puts.1.namespace")
    large = "x" * MEMORY_VALUE_BYTES
    refused = await bot.refusal("put_batch", puts=[put("a"), put("b", large)])
    assert (refused.code, refused.context["field"]) == (41301, "puts.1.value")
    assert await bot.keys() == []


async def test_a_store_that_is_down_refuses_the_whole_batch(bot: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = bot.ledger
    commit, failures = ledger.commit, ["once"]

    def sometimes(write: Any) -> Any:
        if write.tenant == bot.tenant and failures:
            failures.pop()
            future = asyncio.get_running_loop().create_future()
            future.set_exception(Unavailable("down", retry_after_ms=1))
            return future
        return commit(write)

    monkeypatch.setattr(ledger, "commit", sometimes)
    refused = await bot.refusal("put_batch", puts=[put("a")], id="m1")
    assert (refused.code, refused.error["retryable"]) == (50301, True)
    assert short(await batch(bot, put("a"), id="m1")) == [(1, True)]
