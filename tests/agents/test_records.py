"""Records: memories of an agent, in lists, by meaning, and pruned."""

from typing import Any

import pytest

from hivemem_agents.endpoints import pruning
from hivemem_testing.waiting import eventually

from .conftest import Bot, Remembering

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_record_is_a_memory_of_its_agent(bot: Bot, memories: Remembering) -> None:
    await bot.registered()
    await bot.cycle()
    key = await bot.record({"seen": "ferry"}, number=1, importance=0.8, metadata={"place": "Naxos"})
    memory = await memories.ask("get", namespace="app:agents:alpha", key=key)
    assert (memory["value"], memory["importance"], memory["memory_type"]) == ({"seen": "ferry"}, 0.8, "episodic")
    assert memory["metadata"] == {"place": "Naxos", "kind": "observation"}
    assert (memory["source"]["agent_id"], memory["source"]["cycle"]) == ("alpha", 1)
    (listed,) = (await bot.ask("records", agent_id="alpha"))["items"]
    assert (listed["key"], listed["version"], listed["number"]) == (key, 1, 1)
    assert listed["metadata"] == memory["metadata"]


async def test_a_record_is_refused_for_another_kind_or_an_unknown_cycle(bot: Bot) -> None:
    await bot.registered()
    body = {"agent_id": "alpha", "kind": "plan", "content": "c"}
    assert (await bot.refusal("record", body, metadata={"kind": "result"})).context["field"] == "metadata.kind"
    assert (await bot.refusal("record", body, number=7)).error["detail"] == "agent 'alpha' has no cycle 7"
    assert await bot.contents() == []


async def test_a_record_id_names_the_same_record_again(bot: Bot) -> None:
    await bot.registered()
    await bot.record("first", record_id="r")
    await bot.record("between")
    again = await bot.ask("record", agent_id="alpha", kind="observation", content="second", record_id="r")
    assert again["version"] == 2
    assert await bot.contents() == ["second", "between"]


async def test_records_are_listed_by_kind_cycle_and_time(bot: Bot) -> None:
    await bot.registered()
    await bot.cycle()
    for number in range(6):
        await bot.record(number, "plan" if number % 2 else "reflection", **({"number": 1} if number > 3 else {}))
    items = (await bot.ask("records", agent_id="alpha"))["items"]
    assert [item["content"] for item in items] == list(range(6))
    assert await bot.contents(kind="plan") == [1, 3, 5]
    assert await bot.contents(number=1) == [4, 5]
    assert await bot.contents(number=1, kind="plan") == [5]
    assert await bot.contents(since=items[2]["at"], until=items[4]["at"]) == [2, 3]
    first = await bot.ask("records", agent_id="alpha", limit=4)
    assert await bot.contents(limit=4, cursor=first["cursor"]) == [4, 5]


async def test_large_records_are_listed_and_traced_whole(bot: Bot) -> None:
    await bot.registered()
    for number in range(5):
        await bot.record(f"{number}" + "x" * 250_000)

    for operation in ("records", "trace"):
        found: list[str] = []
        cursor: str | None = None
        while True:
            page = await bot.ask(operation, {"cursor": cursor} if cursor else {}, agent_id="alpha")
            found += [item["content"][0] for item in page["items"] if "content" in item]
            cursor = page["cursor"]
            if cursor is None:
                break
        assert found == list("01234"), operation


async def test_a_deleted_memory_is_no_record_until_it_is_restored(bot: Bot, memories: Remembering) -> None:
    await bot.registered()
    key = await bot.record("first")
    await bot.record("second")
    place = {"namespace": "app:agents:alpha", "key": key}
    await memories.ask("delete", place)
    assert await bot.contents() == ["second"]

    async def noted() -> bool:
        checked: int = (await bot.ask("prune", agent_id="alpha", max_entries=9, dry_run=True))["checked"]
        return checked == 1

    await eventually(noted, "the deletion is noted")
    await memories.ask("restore", place)

    async def listed() -> bool:
        return await bot.contents() == ["first", "second"]

    await eventually(listed, "the restored record is listed")


async def test_records_are_found_by_meaning_with_the_newest_results(bot: Bot) -> None:
    await bot.registered()
    await bot.registered("other")
    for number in range(3):
        await bot.cycle(output=number)
    await bot.record("The ferry to Naxos leaves at seven in the morning.")
    await bot.record("Boats leave early.", "reflection")
    await bot.record("Buy bread.", "plan")
    await bot.ask("record", agent_id="other", kind="observation", content="The ferry leaves at noon.")

    async def found(**fields: Any) -> list[str]:
        body = {"agent_id": "alpha", "query": "when does the ferry leave?", "wait_ms": 10_000, **fields}
        answer = await bot.ask("recall", body)
        assert answer["degraded"] is None
        assert [result["output"] for result in answer["results"]] == [2, 1][: fields.get("results", 2)]
        return [item["value"] for item in answer["items"]]

    assert (await found(results=2))[0] == "The ferry to Naxos leaves at seven in the morning."
    assert len(await found(results=1)) == 3
    assert await found(kinds=["plan", "reflection"], results=2) == ["Boats leave early.", "Buy bread."]
    assert await found(kinds=["plan", "reflection"], limit=1, results=0) == ["Boats leave early."]
    assert await found(kinds=["plan", "reflection"], max_tokens=6, results=0) == ["Boats leave early."]


async def test_pruning_says_first_what_it_deletes_then(bot: Bot, memories: Remembering) -> None:
    await bot.registered()
    keys = [await bot.record(f"{number}", importance=number / 10) for number in (1, 9, 5, 3)]
    await bot.record("a plan", "plan")
    body = {"agent_id": "alpha", "kinds": ["observation"], "min_relevance": 0.2, "max_entries": 2}
    shown = await bot.ask("prune", body, dry_run=True)
    assert [(item["key"], item["why"]) for item in shown["items"]] == [
        (keys[0], "min_relevance"),
        (keys[3], "max_entries"),
    ]
    assert await bot.contents() == ["1", "9", "5", "3", "a plan"]
    done = await bot.ask("prune", body)
    assert (done["checked"], done["pruned"]) == (4, 2)
    assert await bot.contents() == ["9", "5", "a plan"]
    assert (await memories.ask("history", namespace="app:agents:alpha", key=keys[0]))["items"][0]["deleted"]
    refused = await bot.refusal("prune", agent_id="alpha")
    assert (refused.code, refused.context["field"]) == (40001, "max_entries")


async def test_a_large_pruning_takes_several_requests(bot: Bot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruning, "PRUNED_AT_ONCE", 2)
    await bot.registered()
    for number in range(5):
        await bot.record(number)
    answers = [await bot.ask("prune", agent_id="alpha", max_entries=1) for _ in range(3)]
    assert [(answer["pruned"], answer["left"]) for answer in answers] == [(2, 2), (2, 0), (0, 0)]
    assert await bot.contents() == [4]
