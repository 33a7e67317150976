"""Deleting files, and what deleting a session does to its files."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from nats.aio.client import Client

from hivemem_artifacts.endpoints import deletions
from hivemem_artifacts.endpoints.deletions import ArtifactDeleter
from hivemem_artifacts.entities.deletions import DELETION
from hivemem_artifacts.entities.places import place_of
from hivemem_contracts.changes import Change
from hivemem_contracts.errors import Unavailable
from hivemem_contracts.identifiers import format_time, time_from_microseconds
from hivemem_contracts.subjects import Address
from hivemem_testing.feed import announced

from .hive import Agent, Body, Refused, eventually, parts_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

READS = ("get", "stat", "versions", "delete")


async def unreferenced(bot: Agent) -> int:
    found: Body = await bot.ask("gc", dry_run=True, grace_seconds=0)
    return int(found["removed"])


async def test_nothing_of_a_deleted_file_is_left(bot: Agent) -> None:
    for n in range(3):
        await bot.save("a", f"{n}".encode())
    receipt = await bot.ask("delete", session_id="s1", name="a")
    assert (receipt["session_id"], receipt["name"], receipt["version"]) == ("s1", "a", 4)
    for operation in READS:
        assert (await bot.refusal(operation, session_id="s1", name="a")).code == 40401
    assert (await bot.refusal("stat", session_id="s1", name="a", version=2)).code == 40401
    assert await bot.pages("list") == []
    assert (await bot.told("artifact.>"))[-1] == ("artifact.deleted", 4)
    assert await unreferenced(bot) == 3


async def test_the_numbers_go_on_after_a_deletion(bot: Agent) -> None:
    await bot.save("a", b"1")
    await bot.ask("delete", session_id="s1", name="a")
    assert (await bot.save("a", b"2"))["version"] == 3
    assert [item["version"] for item in await bot.pages("versions", name="a")] == [3]
    assert (await bot.refusal("stat", session_id="s1", name="a", version=1)).code == 40401
    assert (await bot.ask("delete", session_id="s1", name="a"))["version"] == 4


async def test_a_repeated_deletion_answers_the_first_receipt_and_spares_what_came_after(bot: Agent) -> None:
    await bot.save("a", b"1")
    first = await bot.ask("delete", id="m1", session_id="s1", name="a")
    await bot.save("a", b"2")
    assert await bot.ask("delete", id="m1", session_id="s1", name="a") == {**first, "duplicate": True}
    assert await bot.content("a") == b"2"


async def test_bytes_stay_while_any_other_file_has_them(bot: Agent) -> None:
    for name in ("a", "b"):
        await bot.save(name, b"same")
    await bot.save("a", b"same")
    await bot.ask("delete", session_id="s1", name="a")
    assert (await bot.ask("gc", grace_seconds=0))["removed"] == 0
    assert await bot.content("b") == b"same"
    await bot.ask("delete", session_id="s1", name="b")
    assert (await bot.ask("gc", grace_seconds=0))["removed"] == 1


@pytest.mark.parametrize("step", ["_release", "_erase"])
async def test_an_interrupted_deletion_goes_on(bot: Agent, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    monkeypatch.setattr(deletions, "RELEASED_AT_ONCE", 2)
    for n in range(5):
        await bot.save("a", f"{n}".encode())
    done, calls = getattr(ArtifactDeleter, step), list[str]()

    async def interrupt(self: ArtifactDeleter, tenant: str, *arguments: Any) -> Any:
        if tenant == bot.tenant:
            calls.append(step)
            if len(calls) == (2 if step == "_release" else 1):
                raise Unavailable("the store is away", retry_after_ms=1)
        return await done(self, tenant, *arguments)

    monkeypatch.setattr(ArtifactDeleter, step, interrupt)
    assert (await bot.refusal("delete", id="m1", session_id="s1", name="a")).code == 50301
    refused = await bot.refusal("save", session_id="s1", name="a", data_base64="MA==")
    assert (refused.code, refused.error["retryable"]) == (50301, True)
    head = await bot.ledger.head(DELETION, bot.tenant, place_of("s1", "a"))
    assert head is not None
    assert head.value is not None
    assert head.value.running
    await parts_of(bot.worker).deleter.finish(bot.tenant, head.id, head.value)
    assert (await bot.ask("delete", id="m1", session_id="s1", name="a"))["version"] == 6
    assert (await bot.told("artifact.>"))[-1] == ("artifact.deleted", 6)
    assert await unreferenced(bot) == 5
    assert (await bot.save("a", b"0"))["version"] == 7


async def test_a_deletion_that_was_held_up_spares_the_next_file_of_the_name(
    bot: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bot.save("a", b"old")
    erase, held, go_on = bot.ledger.erase, asyncio.Event(), asyncio.Event()

    async def hold(entity: Any, tenant: str, *arguments: Any, **options: Any) -> Any:
        if tenant == bot.tenant and not held.is_set():
            held.set()
            await go_on.wait()
        return await erase(entity, tenant, *arguments, **options)

    monkeypatch.setattr(bot.ledger, "erase", hold)
    slow = asyncio.create_task(bot.ask("delete", id="m1", session_id="s1", name="a"))
    await held.wait()
    receipt = await bot.ask("delete", id="m1", session_id="s1", name="a")
    assert (await bot.save("a", b"new"))["version"] == 3
    go_on.set()
    assert await slow == {**receipt, "duplicate": False}
    assert await bot.content("a") == b"new"
    assert await bot.told("artifact.>") == [("artifact.saved", 1), ("artifact.deleted", 2), ("artifact.saved", 3)]


async def passes(asked: Coroutine[Any, Any, Body], *codes: int) -> bool:
    """Return whether the request succeeded; refusals with one of `codes` are expected."""
    try:
        await asked
    except Refused as refused:
        if refused.code not in codes:
            raise
        return False
    return True


async def test_deletions_and_saves_at_once_leave_what_came_last(bot: Agent) -> None:
    await bot.save("a", b"x")

    async def save(n: int) -> None:
        while not await passes(bot.save("a", f"{n % 3}".encode()), 50301):
            pass

    async def delete() -> None:
        for _ in range(5):
            await passes(bot.ask("delete", session_id="s1", name="a"), 40401, 50301)

    await asyncio.gather(*(save(n) for n in range(20)), delete(), delete())
    await save(0)
    assert await bot.content("a") == b"0"
    await bot.ask("gc", grace_seconds=0)
    for item in await bot.pages("versions", name="a"):
        assert await bot.content("a", version=item["version"]) in (b"0", b"1", b"2", b"x")


async def session_deleted(client: Client, bot: Agent, session_id: str, at: Any, version: int = 5) -> None:
    """Announce the deletion of a session as the sessions worker does."""
    change = Change(
        entity="session",
        operation="deleted",
        tenant=bot.tenant,
        namespace=session_id,
        version=version,
        actor="janitor",
        cause="cleaning",
        at=at,
    )
    subject, body, headers = await announced(client, change, Address((session_id,)))
    await client.request(subject, body, headers=headers)


async def test_deleting_a_session_deletes_its_files(bot: Agent) -> None:
    for name in ("a", "b/c"):
        await bot.save(name, name.encode())
    kept = await bot.save("a", b"other", session_id="s10")
    upload = await bot.begin("d")
    await bot.chunk(upload, 0, b"xyz")
    await session_deleted(bot.client, bot, "s1", time_from_microseconds(2**52))

    async def gone() -> bool:
        return not await bot.pages("list")

    await eventually(gone, "the session's files are deleted")
    told = await bot.feed_of(5, "artifact.>")
    assert {(change.body["actor"], change.body["cause"]) for change in told if change.what == "artifact.deleted"} == {
        ("janitor", "cleaning")
    }
    assert await bot.stat("a", session_id="s10") == kept
    assert (await bot.refusal("commit", upload_id=upload["upload_id"])).code == 40401


async def test_files_of_a_later_session_of_the_same_id_stay(bot: Agent) -> None:
    saved = await bot.save("a", b"new")
    before = time_from_microseconds(1)
    await session_deleted(bot.client, bot, "s1", before)
    assert format_time(before) < saved["created_at"]
    await bot.save("b", b"x", session_id="s2")
    await session_deleted(bot.client, bot, "s2", time_from_microseconds(2**52))

    async def gone() -> bool:
        return not await bot.pages("list", session_id="s2")

    await eventually(gone, "the later change is done")
    assert await bot.content("a") == b"new"
