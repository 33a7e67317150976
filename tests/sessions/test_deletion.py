"""A deletion is an erasure, and takes nothing from living forks."""

import asyncio
from typing import Any

import pytest

from hivemem_contracts.errors import Unavailable
from hivemem_contracts.subjects import Sender
from hivemem_sessions.endpoints.deletion import SessionEraser
from hivemem_sessions.entities import SESSION

from .hive import Agent, Body

pytestmark = pytest.mark.asyncio(loop_scope="session")

EVERY_READ: tuple[tuple[str, Body], ...] = (
    ("get", {}),
    ("get", {"revision": 1}),
    ("get", {"at": "2100-01-01T00:00:00Z"}),
    ("events", {}),
    ("state_get", {}),
    ("fork", {}),
    ("append", {"event": {"type": "n"}}),
    ("state_set", {"key": "a", "value": 1}),
    ("set_status", {"status": "active"}),
    ("terminate", {}),
    ("archive", {}),
    ("delete", {}),
)


async def family(bot: Agent) -> str:
    """Create `a` with five events, its fork `b` with five, and the fork `c` of `b` with six; return the time of a's
    fourth."""
    await bot.create("a")
    for n in range(1, 6):
        await bot.append("a", content=f"a{n}")
    at: str = (await bot.events("a"))[3]["at"]
    await bot.ask("fork", session_id="a", revision=4, new_session_id="b")
    await bot.append("b", content="b4")
    await bot.append("b", content="b5")
    await bot.ask("fork", session_id="b", new_session_id="c")
    await bot.append("c", content="c6")
    return at


async def contents(bot: Agent, session_id: str, **fields: object) -> list[str]:
    return [event["content"] for event in await bot.events(session_id, **fields)]


async def test_nothing_of_a_deleted_session_is_left(bot: Agent) -> None:
    await bot.create("s1", initial_state={"a": 1, "user:x": 1})
    await bot.append("s1", event_id="e1")
    receipt = await bot.ask("delete", session_id="s1")
    assert (receipt["session_id"], receipt["revision"], receipt["deleted_at"][-1]) == ("s1", 3, "Z")
    for operation, fields in EVERY_READ:
        refused = await bot.refusal(operation, fields, session_id="s1")
        assert (refused.code, refused.context) == (40401, {"session_id": "s1"}), operation
    assert (await bot.ask("list"))["items"] == []
    assert (await bot.told())[-1] == ("session.deleted", 3)


async def test_the_same_deletion_again_answers_the_first_receipt(bot: Agent) -> None:
    await bot.create("s1")
    first = await bot.ask("delete", id="m1", session_id="s1")
    assert await bot.ask("delete", id="m1", session_id="s1") == {**first, "duplicate": True}
    assert (await bot.refusal("delete", id="m2", session_id="s1")).code == 40401
    assert (await bot.told()).count(("session.deleted", 2)) == 1


async def test_an_id_may_be_used_again_and_its_numbers_go_on(bot: Agent) -> None:
    await bot.create("s1", id="create", initial_state={"old": 1})
    await bot.append("s1", id="m1", event_id="e1", content="old")
    deleted = await bot.ask("delete", session_id="s1")
    again = await bot.create("s1", id="create-again")
    assert (again["revision"], again["state"], again["event_count"]) == (deleted["revision"] + 1, {}, 0)
    late = await bot.refusal("append", id="m1", session_id="s1", event={"type": "note", "event_id": "e1"})
    assert (late.code, late.context["erased"]) == (40401, True)
    assert await bot.append("s1", id="m2", event_id="e1", content="new") == {
        "session_id": "s1",
        "event_id": "e1",
        "sequence": 1,
        "revision": again["revision"] + 1,
        "duplicate": False,
    }
    assert await contents(bot, "s1") == ["new"]
    assert (await bot.refusal("get", session_id="s1", revision=1)).code == 40401
    assert (await bot.session("s1", revision=again["revision"]))["event_count"] == 0
    told = [change.body["value"]["content"] for change in await bot.feed("event.>")]
    assert told == ["old", "new"]


async def test_a_deletion_that_is_sent_again_spares_the_next_session_of_the_id(bot: Agent) -> None:
    await bot.create("s1")
    await bot.append("s1")
    first = await bot.ask("delete", id="m1", session_id="s1")
    await bot.create("s1")
    await bot.append("s1", content="new")
    again = await bot.ask("delete", id="m1", session_id="s1")
    assert (again["session_id"], again["revision"]) == ("s1", first["revision"])
    assert await contents(bot, "s1") == ["new"]
    assert (await bot.ask("delete", id="m2", session_id="s1"))["revision"] > first["revision"]


async def test_of_two_deletions_at_once_the_later_one_finds_nothing(
    bot: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bot.create("s1")
    erase = SessionEraser._erase  # pyright: ignore[reportPrivateUsage]  # it is overtaken right there
    overtaken: list[str] = []

    async def overtake(eraser: SessionEraser, sender: Sender, session_id: str, cause: str, keep: int) -> Any:
        if cause == bot.id("slow") and not overtaken:
            overtaken.append(cause)
            await bot.ask("delete", id=bot.id("fast"), session_id="s1")
        return await erase(eraser, sender, session_id, cause, keep)

    monkeypatch.setattr(SessionEraser, "_erase", overtake)
    refused = await bot.refusal("delete", id=bot.id("slow"), session_id="s1")
    assert (refused.code, refused.context) == (40401, {"session_id": "s1"})
    assert (await bot.told()).count(("session.deleted", 2)) == 1


async def test_living_forks_keep_what_they_share(bot: Agent) -> None:
    at = await family(bot)
    await bot.ask("delete", session_id="a")
    assert await contents(bot, "b") == ["a1", "a2", "a3", "b4", "b5"]
    assert await contents(bot, "c", reverse=True, limit=2) == ["c6", "b5", "b4", "a3", "a2", "a1"]
    assert await contents(bot, "c", until=at) == ["a1", "a2", "a3"]
    assert await contents(bot, "c", since=at) == ["b4", "b5", "c6"]
    assert (await bot.session("c", revision=1))["event_count"] == 5
    assert (await bot.refusal("events", session_id="a")).code == 40401
    await bot.ask("delete", session_id="b")
    assert await contents(bot, "c") == ["a1", "a2", "a3", "b4", "b5", "c6"]
    await bot.ask("fork", session_id="c", revision=1, new_session_id="d")
    assert await contents(bot, "d") == ["a1", "a2", "a3", "b4", "b5"]


async def test_a_new_session_of_a_shared_id_keeps_apart_from_the_old_one(bot: Agent) -> None:
    at = await family(bot)
    await bot.ask("delete", session_id="a")
    await bot.create("a")
    between: str = (await bot.session("a"))["created_at"]
    await bot.append("a", content="new 1")
    await bot.append("a", content="new 2")
    await bot.ask("fork", session_id="a", new_session_id="e")
    await bot.append("a", content="new 3")
    assert await contents(bot, "a") == ["new 1", "new 2", "new 3"]
    assert await contents(bot, "a", until=between) == []
    assert await contents(bot, "b") == ["a1", "a2", "a3", "b4", "b5"]
    assert await contents(bot, "b", reverse=True, limit=1) == ["b5", "b4", "a3", "a2", "a1"]
    assert await contents(bot, "b", until=at) == ["a1", "a2", "a3"]
    assert await contents(bot, "b", since=between) == []
    assert await contents(bot, "e") == ["new 1", "new 2"]
    await bot.ask("delete", session_id="a")
    assert await contents(bot, "e") == ["new 1", "new 2"]
    assert await contents(bot, "c") == ["a1", "a2", "a3", "b4", "b5", "c6"]
    for session_id in ("b", "c"):
        await bot.ask("delete", session_id=session_id)
    assert await contents(bot, "e") == ["new 1", "new 2"]
    await bot.ask("delete", session_id="e")
    assert await kept(bot) == {"a": [], "b": [], "c": []}


async def test_the_last_fork_takes_what_was_kept_for_it(bot: Agent) -> None:
    await family(bot)
    for session_id in ("a", "b", "c"):
        await bot.ask("delete", session_id=session_id)
    assert await kept(bot) == {"a": [], "b": [], "c": []}


async def test_forks_deleted_at_once_leave_nothing_behind(bot: Agent) -> None:
    await family(bot)
    await bot.ask("fork", session_id="a", new_session_id="d")
    await bot.ask("delete", session_id="a")
    assert (await kept(bot))["a"] == [1, 2, 3, 4, 5]
    await asyncio.gather(*(bot.ask("delete", session_id=session_id) for session_id in ("b", "c", "d")))
    assert await kept(bot) == {"a": [], "b": [], "c": []}


async def test_a_fork_made_while_its_origin_is_deleted_is_whole_or_refused(bot: Agent) -> None:
    for turn in range(20):
        session_id = f"origin-{turn}"
        await bot.create(session_id)
        await bot.ask("append_batch", appends=[{"session_id": session_id, "event": {"type": "n"}}] * 5)
        fork, _ = await asyncio.gather(
            bot.ask("fork", session_id=session_id, new_session_id=f"fork-{turn}"),
            bot.ask("delete", session_id=session_id),
            return_exceptions=True,
        )
        if not isinstance(fork, BaseException):
            assert await bot.sequences(f"fork-{turn}") == [1, 2, 3, 4, 5]


async def test_a_deletion_waits_until_all_is_announced(bot: Agent) -> None:
    await bot.create("s1")
    appends = [{"session_id": "s1", "event": {"type": "n"}} for _ in range(200)]
    batch = asyncio.create_task(bot.ask("append_batch", appends=appends))
    await bot.append("s1")
    await bot.ask("delete", session_id="s1")
    await batch
    told = await bot.told()
    deleted = told.index(next(what for what in told if what[0] == "session.deleted"))
    events = [version for what, version in told[:deleted] if what == "event.appended"]
    assert events == list(range(1, len(events) + 1))


@pytest.mark.parametrize("step", ["_end", "_release", "_move"])
async def test_a_deletion_that_was_interrupted_is_finished_by_the_same_again(
    bot: Agent, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    await family(bot)
    for session_id in ("a", "b"):
        await bot.ask("delete", session_id=session_id)
    assert (await kept(bot))["a"] == [1, 2, 3]
    done, interrupted = getattr(SessionEraser, step), list[str]()

    async def interrupt(eraser: SessionEraser, sender: Sender, *arguments: Any) -> Any:
        if sender.tenant == bot.tenant and not interrupted:
            interrupted.append(step)
            raise Unavailable("the store is away", retry_after_ms=1)
        return await done(eraser, sender, *arguments)

    monkeypatch.setattr(SessionEraser, step, interrupt)
    assert (await bot.refusal("delete", session_id="c", id="m1")).code == 50301
    assert (await bot.refusal("get", session_id="c")).code == 40401
    receipt = await bot.ask("delete", session_id="c", id="m1")
    assert await bot.ask("delete", session_id="c", id="m1") == receipt
    assert await kept(bot) == {"a": [], "b": [], "c": []}


async def test_a_store_that_is_away_is_told(bot: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    await bot.create("s1")

    async def away(*arguments: Any, **options: Any) -> Any:
        raise Unavailable("away", retry_after_ms=1)

    with monkeypatch.context() as patched:
        patched.setattr(bot.ledger, "erase", away)
        refused = await bot.refusal("delete", session_id="s1")
    assert (refused.code, refused.error["retryable"]) == (50301, True)
    assert (await bot.session("s1"))["revision"] == 1


async def test_a_session_that_is_written_to_all_the_time_is_refused_in_the_end(
    bot: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bot.create("s1")

    async def never(*arguments: Any, **options: Any) -> Any:
        raise Unavailable("not announced yet", retry_after_ms=1, announced=0)

    with monkeypatch.context() as patched:
        patched.setattr(bot.ledger, "erase", never)
        refused = await bot.refusal("delete", session_id="s1")
    assert "written to all the time" in refused.error["detail"]
    assert refused.error["retryable"] is True


async def kept(bot: Agent) -> dict[str, list[int]]:
    """Return the positions of the records that the store still has, read directly."""
    ledger = bot.ledger
    found: dict[str, list[int]] = {}
    for session_id in ("a", "b", "c"):
        records = await ledger.history(SESSION, bot.tenant, session_id, limit=1_000)
        found[session_id] = [record.value.sequence or 0 for record in records]
    return found


async def test_a_deletion_that_comes_again_does_not_reach_a_later_session_of_the_id(bot: Agent) -> None:
    await bot.create("s1")
    receipt = await bot.ask("delete", session_id="s1", id="m1")
    await bot.create("s1")
    again = await bot.ask("delete", session_id="s1", id="m1")
    assert again["revision"] == receipt["revision"]
    assert (await bot.session("s1"))["status"] == "created"
    assert (await bot.ask("delete", session_id="s1", id="m2"))["revision"] > receipt["revision"]


async def test_an_id_can_be_used_again_as_soon_as_its_deletion_is_answered(bot: Agent) -> None:
    for _ in range(20):
        await bot.create("s1")
        await bot.ask("delete", session_id="s1")
    await bot.create("s1")
