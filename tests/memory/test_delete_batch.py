"""Many deletions in one request or command: each has its own outcome, and none is done twice."""

import pytest

from .hive import NAMESPACE, Agent, Body

pytestmark = pytest.mark.asyncio(loop_scope="session")


def place(key: str, **fields: object) -> Body:
    return {"namespace": NAMESPACE, "key": key, **fields}


def short(results: list[Body]) -> list[object]:
    """Return the version of each deletion, or its error code; a star marks a repeated one."""
    return [
        result["error"]["code"] if result["error"] else f"{result['version']}{'*' if result['duplicate'] else ''}"
        for result in results
    ]


async def test_each_deletion_has_its_outcome(bot: Agent) -> None:
    for key in "abc":
        await bot.put(key, 1)
    lease = {"namespace": NAMESPACE, "key": "c", "token": 3}
    deletes = [
        place("a", expect_version=1),
        place("none"),
        place("b", expect_version=2),
        place("a"),
        place("c", lease=lease),
    ]
    for star in ("", "*"):
        results = (await bot.ask("delete_batch", deletes=deletes, id="m1"))["results"]
        assert short(results) == [f"2{star}", 40401, 40902, 40401, 40902]
    assert results[0] == {**place("a"), "version": 2, "created": False, "duplicate": True, "error": None}
    assert await bot.keys() == ["b", "c"]
    assert (await bot.restore("a"))["version"] == 3
    assert [change.body["operation"] for change in await bot.feed_of(5)].count("deleted") == 1


async def test_a_command_deletes_what_it_can(bot: Agent) -> None:
    for key in "ab":
        await bot.put(key, 1)
    await bot.command("delete_batch", "cleaning", {"deletes": [place("a"), place("none"), place("b")]}, id=bot.id("m1"))
    [letter] = await bot.letters(1)
    assert letter.headers["Nats-Service-Error-Code"] == "40401"
    assert await bot.keys() == []


async def test_what_is_wrong_is_named(bot: Agent) -> None:
    for deletes, field in (
        ([], "deletes"),
        ([place("a"), place("b", value=1)], "deletes.1.value"),
        ([{"namespace": "nowhere", "key": "k"}], "deletes.0.namespace"),
        ([place("a")] * 1_001, "deletes"),
    ):
        refused = await bot.refusal("delete_batch", deletes=deletes)
        assert (refused.code, refused.context["field"]) == (40001, field)
