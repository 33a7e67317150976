"""A session keeps references to its own large values alone, and says which sessions forks share."""

from typing import Any

import pytest

from hivemem_contracts.large_values import LARGE, reference_to

from .hive import Agent

pytestmark = pytest.mark.asyncio(loop_scope="session")


def value_of(bot: Agent, session_id: str, digest: str = "ab" * 32) -> dict[str, Any]:
    return reference_to(bot.tenant, session_id, digest, 300_000)


async def shared(bot: Agent, *session_ids: str) -> list[str]:
    found: list[str] = (await bot.ask("shared", session_ids=session_ids))["session_ids"]
    return found


async def test_references_are_kept_in_events_and_own_state(bot: Agent) -> None:
    large = value_of(bot, "s1")
    await bot.create("s1", initial_state={"first": large})
    await bot.append("s1", content=large, state_delta={"second": large, "temp:third": large})
    await bot.ask("state_set", session_id="s1", key="fourth", value=large)
    await bot.ask("state_set", session_id="s1", key="first", value=None)
    assert (await bot.events("s1"))[0]["content"] == large
    assert (await bot.session("s1"))["state"] == dict.fromkeys(("second", "temp:third", "fourth"), large)


async def test_a_reference_to_another_file_is_refused_at_its_place(bot: Agent) -> None:
    await bot.create("s1")
    own, foreign = value_of(bot, "s1"), reference_to("other", "s1", "ab" * 32, 300_000)
    event = {"type": "note"}
    beside = {"session_id": "s1", "event": {**event, "content": foreign}}
    state_set = {"session_id": "s1", "value": own}
    refusals = [
        (await bot.refusal("append", beside), "event.content.$large.url"),
        (await bot.refusal("append", session_id="s1", event={**event, "content": {LARGE: 5}}), "event.content.$large"),
        (
            await bot.refusal("append", session_id="s1", event=event, state_delta={"a": foreign}),
            "state_delta.a.$large.url",
        ),
        (await bot.refusal("append", session_id="s1", event=event, state_delta={"user:a": own}), "state_delta.user:a"),
        (await bot.refusal("state_set", state_set, key="app:a"), "value"),
        (await bot.refusal("state_set", state_set, key="a", value=value_of(bot, "s2")), "value.$large.url"),
        (
            await bot.refusal("create", app_name="app", user_id="user", session_id="s2", initial_state={"a": own}),
            "initial_state.a.$large.url",
        ),
    ]
    assert [(refused.code, refused.context["field"]) for refused, _ in refusals] == [
        (40001, field) for _, field in refusals
    ]
    batch = await bot.ask("append_batch", appends=[beside, {"session_id": "s1", "event": event}])
    assert (batch["results"][0]["error"]["code"], batch["results"][1]["sequence"]) == (40001, 1)


async def test_forks_share_every_session_whose_values_they_have(bot: Agent) -> None:
    """The sessions of this chain have no events, so the state alone says whose values a fork has."""
    await bot.create("a", initial_state={"of a": value_of(bot, "a")})
    await bot.ask("fork", session_id="a", new_session_id="b")
    await bot.ask("state_set", session_id="b", key="of b", value=value_of(bot, "b"))
    await bot.ask("fork", session_id="b", new_session_id="c")
    await bot.ask("fork", session_id="a", new_session_id="d")
    for session_id in ("a", "b"):
        await bot.ask("delete", session_id=session_id)
    assert await shared(bot, "nobody", "b", "a", "c") == ["b", "a"]
    await bot.ask("delete", session_id="c")
    assert await shared(bot, "a", "b") == ["a"]
    await bot.ask("delete", session_id="d")
    assert await shared(bot, "a", "b") == []


async def test_a_fork_of_the_last_fork_is_found_though_that_is_deleted_between_two_reads(
    bot: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bot.create("a", initial_state={"of a": value_of(bot, "a")})
    await bot.ask("fork", session_id="a", new_session_id="b")
    await bot.ask("delete", session_id="a")
    read = bot.ledger.heads

    async def overtaken(*args: Any) -> Any:
        monkeypatch.undo()
        await bot.ask("fork", session_id="b", new_session_id="c")
        await bot.ask("delete", session_id="b")
        return await read(*args)

    monkeypatch.setattr(bot.ledger, "heads", overtaken)
    assert await shared(bot, "a") == ["a"]
