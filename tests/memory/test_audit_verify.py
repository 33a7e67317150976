"""Verification detects changes of the chain, and of memories behind the worker's back, and names the place."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from hivemem_memory.decisions.audit_chain import hash_of
from hivemem_memory.endpoints import chain_comparison, chain_verification, unlinked_memories
from hivemem_memory.endpoints.chain_verification import ChainVerification
from hivemem_memory.endpoints.unlinked_memories import UnlinkedSearch
from hivemem_memory.entities.audit import CHAIN, CHAIN_ID, Link
from hivemem_runtime.ledger.places import place_of

from .chains import chain_is_current
from .hive import NAMESPACE, Agent, Body
from .tampering import Tampering, tampering_with

pytestmark = pytest.mark.asyncio(loop_scope="session")

LARGE = ["a line of a large value"] * 1_000
A, B, C = (place_of(NAMESPACE, key) for key in "abc")


@pytest.fixture
def store_behind(store: dict[str, Any], bot: Agent) -> Iterator[Tampering]:
    with tampering_with(store, bot.tenant) as found:
        yield found


@pytest.fixture(autouse=True)
def told_by_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip the minute in which an edit by hand would pass as a version not announced yet."""
    monkeypatch.setattr(unlinked_memories, "UNANNOUNCED_MICROSECONDS", 0)


async def history(bot: Agent) -> None:
    """`a` is put twice (2, large), `b` put and deleted (4), `c` put, erased and put again (7), a refusal (8)."""
    # Changes of different keys may be linked in any order, so each key waits for the one before.
    await bot.put("a", 1)
    await bot.put("a", LARGE)
    await chain_is_current(bot)
    await bot.put("b", 1)
    await bot.delete("b")
    await chain_is_current(bot)
    await bot.put("c", 1)
    await bot.ask("erase", namespace=NAMESPACE, key="c")
    await chain_is_current(bot)  # otherwise the next put may wait until the erasure is announced
    await bot.put("c", 2)
    await chain_is_current(bot)
    await bot.refusal("put", namespace=NAMESPACE, key="c", value=1, expect_version=0)


async def broken(bot: Agent) -> tuple[int, str]:
    found = await verified(bot)
    assert not found["ok"]
    assert (found["hash"], found["cursor"]) == (None, None)
    return found["broken_at"], found["problem"]


async def verified(bot: Agent, **fields: Any) -> Body:
    return await bot.ask("audit_verify", **fields)


async def test_an_empty_chain_is_whole(bot: Agent) -> None:
    assert await verified(bot) == {
        "ok": True,
        "checked": 0,
        "memories": 0,
        "broken_at": None,
        "problem": None,
        "hash": None,
        "cursor": None,
    }


async def test_a_chain_that_nobody_touched_is_whole(bot: Agent) -> None:
    await history(bot)
    newest = (await bot.ask("audit", limit=1))["items"][0]
    found = await verified(bot)
    assert (found["ok"], found["checked"], found["hash"]) == (True, 8, newest["hash"])


async def test_all_that_can_become_of_a_memory_holds(bot: Agent) -> None:
    await history(bot)
    await bot.restore("b")
    await bot.patch("a", {"x": 1})
    await bot.restore("a", version=2)
    await bot.ask("erase", namespace=NAMESPACE)
    await bot.put("a", 3)
    await bot.delete("a")
    for value in (4, 5):
        await bot.put("b", value)
    assert (await verified(bot))["ok"]


async def test_every_hash_can_be_computed_again(bot: Agent) -> None:
    """Anybody who has the links can do this."""
    await history(bot)
    records = await bot.ledger.history(CHAIN, bot.tenant, CHAIN_ID, limit=100)
    previous = ""
    for record in records:
        assert hash_of(previous, record.value) == record.value.hash
        previous = record.value.hash


def another_value(fields: dict[str, Any]) -> None:
    fields["value"] = "forged"


def a_forged_digest(fields: dict[str, Any]) -> None:
    fields["digest"] = "0" * 64


def another_author(fields: dict[str, Any]) -> None:
    fields["created_by"] = "somebody"


def another_actor(fields: dict[str, Any]) -> None:
    fields["actor"] = "somebody"


def another_position(fields: dict[str, Any]) -> None:
    fields["position"] = 3


def a_huge_number(fields: dict[str, Any]) -> None:
    fields["at"] = 1e300


def nothing_left(fields: dict[str, Any]) -> None:
    fields.clear()


def another_hash(fields: dict[str, Any]) -> None:
    fields["hash"] = "0" * 64


def another_operation(fields: dict[str, Any]) -> None:
    fields["operation"] = "expire"


def further(fields: dict[str, Any]) -> None:
    fields["sequence"] += 1


Tamper = Callable[[Tampering], None]

FOUND: dict[str, tuple[Tamper, int, str]] = {
    "a value": (lambda t: t.edit("memory", A, 1, another_value), 1, "does not match what was written"),
    "a large value": (lambda t: t.edit("memory", A, 2, another_value), 2, "does not match what was written"),
    "a digest": (lambda t: t.edit("memory", A, 1, a_forged_digest), 1, "does not match what was written"),
    "how a version was made": (lambda t: t.edit("memory", A, 1, another_operation), 1, "another operation"),
    "who wrote a version": (lambda t: t.set("memory", A, 1, actor="x"), 1, "another writer, time or request"),
    "when a version was written": (lambda t: t.set("memory", A, 1, at=1), 1, "another writer, time or request"),
    "why a version was written": (lambda t: t.set("memory", A, 1, cause="x"), 1, "another writer, time or request"),
    "a version that is no JSON": (lambda t: t.spoil("memory", A, 1), 1, "version 1 of the memory cannot be read"),
    "a version without its fields": (lambda t: t.edit("memory", B, 1, nothing_left), 3, "cannot be read"),
    "a removed version": (lambda t: t.remove("memory", A, 1), 1, "version 1 of the memory is missing"),
    "a removed newest version": (lambda t: t.remove("memory", A, 2), 2, "version 2 of the memory is missing"),
    "a removed deletion": (lambda t: t.remove("memory", B, 2), 4, "version 2 of the memory is missing"),
    "a removed version after an erasure": (lambda t: t.remove("memory", C, 3), 7, "version 3 of the memory is missing"),
    "two versions exchanged": (lambda t: t.swap("memory", A, 1, 2), 1, "does not match what was written"),
    "a head": (lambda t: t.edit("memory", A, None, another_value), 2, "head does not match version"),
    "the author of a head": (lambda t: t.edit("memory", A, None, another_author), 2, "head does not match version"),
    "what a deletion keeps": (lambda t: t.edit("memory", B, None, another_value), 4, "head does not match version"),
    "a head that is no JSON": (lambda t: t.spoil("memory", A, None), 1, "head cannot be read"),
    "a removed head": (lambda t: t.remove("memory", A, None), 1, "missing without an erasure"),
    "the version of a head": (lambda t: t.set("memory", A, None, version=1), 1, "head does not match version"),
    "a head put back": (lambda t: t.set("memory", A, None, version=0), 1, "head is at version 0"),
    "a head put on": (lambda t: t.set("memory", A, None, version=3), 2, "has version 3, but the chain has no link"),
    "a link": (lambda t: t.edit("audit", CHAIN_ID, 3, another_actor), 3, "hash does not match"),
    "a link's hash": (lambda t: t.edit("audit", CHAIN_ID, 3, another_hash), 3, "hash does not match"),
    "a link's number": (lambda t: t.edit("audit", CHAIN_ID, 5, another_position), 5, "has position 3"),
    "a link that cannot be hashed": (lambda t: t.edit("audit", CHAIN_ID, 5, a_huge_number), 5, "hash does not match"),
    "a link that is no JSON": (lambda t: t.spoil("audit", CHAIN_ID, 5), 5, "the link cannot be read"),
    "the first link that is no JSON": (lambda t: t.spoil("audit", CHAIN_ID, 1), 1, "the link cannot be read"),
    "a removed link": (lambda t: t.remove("audit", CHAIN_ID, 4), 4, "the link is missing"),
    "the first link removed": (lambda t: t.remove("audit", CHAIN_ID, 1), 1, "the link is missing"),
    "the last link removed": (lambda t: t.remove("audit", CHAIN_ID, 8), 8, "the link is missing"),
    "two links exchanged": (lambda t: t.swap("audit", CHAIN_ID, 3, 5), 3, "has position 5"),
    "the chain's head": (lambda t: t.edit("audit", CHAIN_ID, None, another_hash), 8, "the chain's head does not match"),
    "how far the chain's head is": (
        lambda t: t.edit("audit", CHAIN_ID, None, further),
        8,
        "the chain's head does not match",
    ),
    "a chain's head that is no JSON": (lambda t: t.spoil("audit", CHAIN_ID, None), 1, "head cannot be read"),
}


@pytest.mark.parametrize("what", FOUND)
async def test_what_was_changed_by_hand_is_found_and_named(bot: Agent, store_behind: Tampering, what: str) -> None:
    tamper, position, problem = FOUND[what]
    await history(bot)
    tamper(store_behind)
    at, named = await broken(bot)
    assert (at, problem in named) == (position, True), named


@pytest.mark.parametrize("links", [1, 3])
@pytest.mark.parametrize("what", FOUND)
async def test_it_is_found_wherever_a_slice_ends(
    bot: Agent, store_behind: Tampering, what: str, links: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chain_verification, "SLICE", links)
    tamper, position, problem = FOUND[what]
    await history(bot)
    tamper(store_behind)
    at, named = await broken(bot)
    assert (at, problem in named) == (position, True), named


async def test_the_first_of_several_is_named(bot: Agent, store_behind: Tampering) -> None:
    await history(bot)
    store_behind.remove("audit", CHAIN_ID, 6)
    store_behind.edit("memory", B, 1, another_value)
    assert (await broken(bot))[0] == 3


async def test_a_chain_without_its_head_is_found(bot: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    await history(bot)

    async def gone(*place: Any) -> None:
        return None

    monkeypatch.setattr(bot.ledger, "head", gone)
    found = await ChainVerification(bot.ledger, bot.tenant, current).run(None)
    assert (found.broken_at, found.problem) == (1, "the chain has links but no head")


async def cut_off_last_link(bot: Agent, store_behind: Tampering) -> None:
    """Cut off the last link so that the remaining links and the head agree."""
    *_, before, last = (record.value for record in await bot.ledger.history(CHAIN, bot.tenant, CHAIN_ID, limit=100))
    store_behind.remove("audit", CHAIN_ID, last.position)
    told = {"feed": before.feed, "sequence": before.sequence} if before.feed else {}
    head = {"position": before.position, "hash": before.hash, **told}
    store_behind.edit("audit", CHAIN_ID, None, lambda fields: fields.update(head))
    store_behind.set("audit", CHAIN_ID, None, version=before.position)


async def test_a_memory_that_has_no_link_at_all_is_found(bot: Agent, store_behind: Tampering) -> None:
    await bot.put("a", 1)
    await bot.put("d", 1)
    await chain_is_current(bot)
    await cut_off_last_link(bot, store_behind)
    found = await ChainVerification(bot.ledger, bot.tenant, current).run(None)
    assert (found.ok, found.checked, found.broken_at) == (False, 1, None)
    assert found.problem == f"the chain has no link of version 1 of memory 'd' in '{NAMESPACE}'"


async def test_a_memory_without_a_link_may_be_on_its_way(
    bot: Agent, store_behind: Tampering, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next request checks this memory again, and none before it."""
    for key in "abcd":
        await bot.put(key, 1)
    await chain_is_current(bot)
    await cut_off_last_link(bot, store_behind)
    with monkeypatch.context() as patched:
        patched.setattr(unlinked_memories, "UNANNOUNCED_MICROSECONDS", 60_000_000)
        found = await ChainVerification(bot.ledger, bot.tenant, current).run(None)
    assert (found.ok, found.checked, found.memories, found.cursor is not None) == (True, 3, 3, True)
    found = await ChainVerification(bot.ledger, bot.tenant, behind).run(found.cursor)
    assert (found.ok, found.checked, found.memories, found.cursor is not None) == (True, 0, 0, True)
    found = await ChainVerification(bot.ledger, bot.tenant, current).run(found.cursor)
    assert (found.ok, "'d'" in (found.problem or "")) == (False, True)


async def test_many_memories_are_looked_up_in_slices(bot: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unlinked_memories, "MEMORIES_AT_ONCE", 2)
    for key in "abcde":
        await bot.put(key, 1)
        await bot.delete(key)
    await bot.refusal("delete", namespace=NAMESPACE, key="e")
    await chain_is_current(bot)
    memories = UnlinkedSearch(bot.ledger, bot.tenant, current)
    assert await memories.search("", 0.0) == ("", 0, False)
    assert (await memories.search(B, 1e12))[1:] == (3, True)
    found = await verified(bot)
    assert (found["ok"], found["checked"], found["memories"], found["cursor"]) == (True, 11, 5, None)


async def current() -> bool:
    return True


async def behind() -> bool:
    return False


async def test_a_long_chain_takes_several_requests(bot: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    await history(bot)
    monkeypatch.setattr(chain_verification, "LINKS", 3)
    checked: list[int] = []
    cursor: str | None = None
    while True:
        found = await verified(bot, **({"cursor": cursor} if cursor else {}))
        assert found["ok"]
        checked.append(found["checked"])
        cursor = found["cursor"]
        if cursor is None:
            break
    assert checked == [3, 3, 2]


async def test_a_request_takes_no_longer_than_it_may(bot: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    await history(bot)
    monkeypatch.setattr(chain_verification, "SECONDS", 0)
    found = await verified(bot)
    assert (found["ok"], found["checked"], found["cursor"] is not None) == (True, 0, True)


async def test_what_was_verified_cannot_be_taken_back(
    bot: Agent, store_behind: Tampering, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cursor contains the last verified hash, so even a self-consistent replacement chain is detected."""
    await history(bot)
    with monkeypatch.context() as patched:
        patched.setattr(chain_verification, "LINKS", 7)
        cursor = (await verified(bot))["cursor"]
    records = await bot.ledger.history(CHAIN, bot.tenant, CHAIN_ID, limit=100)
    previous = ""
    for record in records:
        link: Link = record.value
        link.actor = "somebody"
        link.hash = previous = hash_of(previous, link)
        store_behind.edit(
            "audit", CHAIN_ID, link.position, partial(dict[str, Any].update, actor=link.actor, hash=previous)
        )
    store_behind.edit("audit", CHAIN_ID, None, partial(dict[str, Any].update, hash=previous))
    found = await verified(bot, cursor=cursor)
    assert (found["broken_at"], "hash does not match" in found["problem"]) == (8, True)


async def test_a_cursor_of_another_tenant_is_none(bot: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    await history(bot)
    monkeypatch.setattr(chain_verification, "LINKS", 3)
    cursor = (await verified(bot))["cursor"]
    other = Agent(bot.client, bot.worker, f"{bot.tenant}-other")
    assert (await other.refusal("audit_verify", cursor=cursor)).code == 40001


async def test_what_the_chain_has_not_taken_up_yet_is_not_broken(bot: Agent, store_behind: Tampering) -> None:
    """Differences that a pending announcement will explain are checked later."""
    await history(bot)
    store_behind.set("memory", A, None, version=3)
    found = await ChainVerification(bot.ledger, bot.tenant, behind).run(None)
    assert (found.ok, found.checked, found.cursor is not None) == (True, 8, True)
    again = await ChainVerification(bot.ledger, bot.tenant, behind).run(found.cursor)
    assert (again.ok, again.checked) == (True, 7)


async def test_nothing_is_passed_over_that_was_too_early(bot: Agent, store_behind: Tampering) -> None:
    """The next request begins with the first link that could not be compared."""
    await history(bot)
    store_behind.set("memory", A, None, version=3)
    store_behind.remove("memory", C, 3)
    found = await ChainVerification(bot.ledger, bot.tenant, behind).run(None)
    assert (found.ok, found.cursor is not None) == (True, True)
    found = await ChainVerification(bot.ledger, bot.tenant, current).run(found.cursor)
    assert (found.broken_at, "version 3, but the chain has no link" in (found.problem or "")) == (2, True)


async def test_few_later_links_are_waited_for_at_a_time(bot: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain_comparison, "AWAITED_LINKS", 4)
    monkeypatch.setattr(chain_comparison, "LOOKED_UP_AT_ONCE", 2)
    monkeypatch.setattr(chain_verification, "SLICE", 3)
    for turn in range(3):
        for key in "abcdefgh":
            await bot.put(key, turn)
    await chain_is_current(bot)
    found = await verified(bot)
    assert (found["ok"], found["checked"]) == (True, 24)


async def test_what_was_written_just_now_is_not_broken(
    bot: Agent, store_behind: Tampering, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its version may not be announced yet, whichever worker wrote it."""
    monkeypatch.setattr(unlinked_memories, "UNANNOUNCED_MICROSECONDS", 60_000_000)
    await history(bot)
    store_behind.set("memory", A, None, version=3)
    found = await ChainVerification(bot.ledger, bot.tenant, current).run(None)
    assert (found.ok, found.cursor is not None) == (True, True)


async def test_a_chain_that_grows_is_verified_up_to_where_it_was(bot: Agent) -> None:
    await history(bot)
    for turn in range(30):
        await bot.put("a", turn)
        await bot.put(f"k{turn}", turn)
        found = await verified(bot)
        assert found["ok"], found
