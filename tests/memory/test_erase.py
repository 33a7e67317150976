"""Erasing a memory removes all of its versions, announces it, and ends with a receipt."""

import asyncio
from typing import Any

import pytest

from hivemem_contracts.errors import IdempotencyConflict, Unavailable
from hivemem_memory.decisions import erasures as rules
from hivemem_memory.endpoints import erasures
from hivemem_memory.endpoints.erased_feed import ErasedFeed
from hivemem_memory.endpoints.erasures import Eraser
from hivemem_memory.entities.answers import ANSWER
from hivemem_memory.entities.erasures import ERASURE
from hivemem_memory.entities.memories import MEMORY, receipt_id
from hivemem_runtime.ledger.places import place_of

from .hive import NAMESPACE, Agent, Body, eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def kept(bot: Agent, key: str, namespace: str = NAMESPACE) -> int:
    """Return how many versions the store has, read directly."""
    return len(await bot.ledger.history(MEMORY, bot.tenant, place_of(namespace, key), limit=1_000))


async def done(bot: Agent, receipt: str) -> Body:
    found: Body = {}

    async def finished() -> bool:
        found.update(await bot.ask("erasure", receipt=receipt))
        return bool(found["status"] == "done")

    await eventually(finished, "the erasure is done")
    return found


async def test_nothing_of_an_erased_memory_is_left(bot: Agent) -> None:
    for turn in range(3):
        await bot.put("a", turn, id=f"m{turn}")
    await bot.put("b", 1)
    receipt = await bot.ask("erase", namespace=NAMESPACE, key="a", id="e1")
    assert (receipt["status"], receipt["entries"], receipt["versions"]) == ("done", 1, 3)
    assert (receipt["namespace"], receipt["key"], receipt["requested_by"]) == (NAMESPACE, "a", "bot")
    assert receipt["requested_at"] <= receipt["finished_at"]
    assert [(each["worker"], each["removed"]) for each in receipt["confirmed"]] == [("memory", 3), ("feed", 3)]
    assert await bot.ask("erasure", receipt=receipt["receipt"]) == receipt
    for operation, fields in (("get", {}), ("get", {"version": 1}), ("history", {}), ("delete", {}), ("restore", {})):
        refused = await bot.refusal(operation, {"namespace": NAMESPACE, "key": "a", **fields})
        assert refused.code == 40401, operation
    assert (await kept(bot, "a"), await bot.keys()) == (0, ["b"])


async def test_it_is_announced_with_its_receipt(bot: Agent) -> None:
    await bot.put("a", 1)
    receipt = await bot.called("other").ask("erase", namespace=NAMESPACE, key="a", id="e1")
    (erased,) = [each for each in await bot.feed("memory.>") if each.what == "memory.erased"]
    assert (erased.what, erased.body["version"], erased.body["previous_version"]) == ("memory.erased", 2, 1)
    assert (erased.body["actor"], erased.body["cause"]) == ("other", "e1")
    assert erased.body["value"] == {"receipt": receipt["receipt"]}


async def test_the_same_request_again_answers_the_same_receipt(bot: Agent) -> None:
    await bot.put("a", 1)
    receipt = await bot.ask("erase", namespace=NAMESPACE, key="a", id="e1")
    await bot.put("a", 2)
    assert await bot.ask("erase", namespace=NAMESPACE, key="a", id="e1") == receipt
    assert (await bot.memory("a"))["value"] == 2
    again = await bot.ask("erase", namespace=NAMESPACE, key="a", id="e2")
    assert (again["receipt"] != receipt["receipt"], again["versions"]) == (True, 1)


async def test_two_agents_with_the_same_request_id_have_receipts_of_their_own(bot: Agent) -> None:
    receipts = set[str]()
    for name in ("one", "two"):
        await bot.put("a", 1)
        receipts.add((await bot.called(name).ask("erase", namespace=NAMESPACE, key="a", id="e1"))["receipt"])
    assert len(receipts) == 2


async def test_what_is_not_there_cannot_be_erased(bot: Agent) -> None:
    refused = await bot.refusal("erase", namespace=NAMESPACE, key="a")
    assert (refused.code, refused.context) == (40401, {"namespace": NAMESPACE, "key": "a"})
    await bot.put("a", 1)
    await bot.ask("erase", namespace=NAMESPACE, key="a")
    assert (await bot.refusal("erase", namespace=NAMESPACE, key="a")).code == 40401
    assert (await bot.refusal("erasure", receipt="none")).context == {"receipt": "none"}


async def test_a_namespace_goes_with_all_below_it_and_what_was_deleted(bot: Agent) -> None:
    for namespace in (NAMESPACE, f"{NAMESPACE}:deep", f"{NAMESPACE}:deep:er", f"{NAMESPACE}x", "user:bob"):
        await bot.ask("put", namespace=namespace, key="a", value=1)
    await bot.put("b", 1)
    await bot.delete("b")
    receipt = await bot.ask("erase", namespace=NAMESPACE)
    assert (receipt["entries"], receipt["versions"], receipt["key"]) == (4, 5, None)
    assert (await bot.ask("count", prefix="user", include_deleted=True))["count"] == 2
    assert sorted(each.body["namespace"] for each in await bot.feed() if each.what == "memory.erased") == [
        NAMESPACE,
        NAMESPACE,
        f"{NAMESPACE}:deep",
        f"{NAMESPACE}:deep:er",
    ]


async def test_an_empty_namespace_has_a_receipt_too(bot: Agent) -> None:
    receipt = await bot.ask("erase", namespace="user:nobody")
    assert (receipt["status"], receipt["entries"], receipt["versions"]) == ("done", 0, 0)


async def test_only_the_versions_of_the_last_life_are_counted(bot: Agent) -> None:
    for versions in (3, 2):
        for turn in range(versions):
            await bot.put("a", turn)
        receipt = await bot.ask("erase", namespace=NAMESPACE)
        assert (receipt["entries"], receipt["versions"]) == (1, versions)
    assert (await bot.put("a", 1))["version"] == 8


async def test_a_late_copy_of_a_write_is_refused(bot: Agent) -> None:
    await bot.put("a", 1, id="m1")
    await bot.ask("erase", namespace=NAMESPACE, key="a")
    assert (await bot.refusal("put", namespace=NAMESPACE, key="a", value=1, id="m1")).code == 40401
    assert (await bot.put("a", 2, id="m2"))["created"]


async def test_nothing_of_the_values_is_left_in_what_batches_answered(bot: Agent) -> None:
    puts: list[Body] = [{"namespace": NAMESPACE, "key": key, "value": "a secret"} for key in "ab"]
    puts.append({"namespace": NAMESPACE, "key": "a", "value": "a secret", "expect_version": 9})
    await bot.ask("put_batch", puts=puts, id="m1")
    await bot.ask("erase", namespace=NAMESPACE)
    page = await bot.ledger.find(ANSWER, bot.tenant, "age", equals={}, limit=10)
    assert len(page.items) == 1
    assert "secret" not in str(page.items)


async def test_leases_on_what_is_erased_stay(bot: Agent) -> None:
    await bot.put("a", 1)
    lease = await bot.ask("lease", namespace=NAMESPACE, key="a", ttl_ms=60_000)
    await bot.ask("erase", namespace=NAMESPACE)
    assert (await bot.ask("renew", namespace=NAMESPACE, key="a", token=lease["token"]))["token"] == lease["token"]


async def test_workers_confirm_what_they_removed(bot: Agent) -> None:
    await bot.put("a", 1)
    receipt = (await bot.ask("erase", namespace=NAMESPACE, key="a"))["receipt"]
    await bot.called("index").ask("erase_confirm", receipt=receipt, worker="vectors", removed=3, id="c1")
    found = await bot.called("index").ask("erase_confirm", receipt=receipt, worker="vectors", removed=3, id="c1")
    assert [(each["worker"], each["removed"]) for each in found["confirmed"]] == [
        ("memory", 1),
        ("feed", 1),
        ("vectors", 3),
    ]
    found = await bot.ask("erase_confirm", receipt=receipt, worker="vectors", removed=5)
    assert [(each["worker"], each["removed"]) for each in found["confirmed"]] == [
        ("memory", 1),
        ("feed", 1),
        ("vectors", 5),
    ]
    assert await bot.ask("erasure", receipt=receipt) == found
    assert (await bot.refusal("erase_confirm", receipt="none", worker="vectors", removed=0)).code == 40401


@pytest.fixture
def followed(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The services that follow erasures."""
    followers = {"vectors"}

    async def following(feed: ErasedFeed) -> set[str]:
        return followers

    monkeypatch.setattr(ErasedFeed, "followers", following)
    monkeypatch.setattr(erasures, "PATIENCE_SECONDS", 0.1)
    return followers


async def test_an_erasure_is_done_when_every_service_with_copies_has_confirmed(bot: Agent, followed: set[str]) -> None:
    await bot.put("a", 1)
    receipt = await bot.ask("erase", namespace=NAMESPACE, key="a")
    assert (receipt["status"], receipt["finished_at"], receipt["awaited"]) == ("running", None, ["feed", "vectors"])
    assert [each["worker"] for each in receipt["confirmed"]] == ["memory"]
    confirming = {"receipt": receipt["receipt"], "removed": 1}
    other = await bot.ask("erase_confirm", confirming, worker="other")
    assert (other["status"], other["awaited"]) == ("running", ["feed", "vectors"])
    await bot.ask("erase_confirm", confirming, worker="vectors")
    found = await done(bot, receipt["receipt"])
    assert (found["awaited"], found["finished_at"] is None) == ([], False)
    for worker in ("memory", "feed"):
        assert (await bot.refusal("erase_confirm", confirming, worker=worker)).context == {"field": "worker"}
    later = await bot.ask("erase_confirm", {**confirming, "removed": 2}, worker="vectors")
    assert (later["status"], later["finished_at"]) == ("done", found["finished_at"])
    told = [(each.what, each.body["version"]) for each in await bot.feed() if each.body["entity"] == "erasure"]
    assert told == [("erasure.removed", 1), ("erasure.done", 2)]


async def test_a_service_that_left_the_fleet_is_not_waited_for(bot: Agent, followed: set[str]) -> None:
    receipt = (await bot.ask("erase", namespace=NAMESPACE))["receipt"]
    assert (await bot.ask("erasure", receipt=receipt))["awaited"] == ["feed", "vectors"]
    followed.clear()
    assert (await done(bot, receipt))["awaited"] == []


async def test_the_values_leave_the_feed_and_what_came_later_stays(bot: Agent) -> None:
    for key in ("a", "b", "a"):
        await bot.put(key, f"secret {key}")
    receipt = await bot.ask("erase", namespace=NAMESPACE, key="a")
    await bot.put("a", "anew")
    assert (await done(bot, receipt["receipt"]))["confirmed"][-1]["worker"] == "feed"
    told = [(each.what, each.body["key"], each.body["version"]) for each in await bot.feed("memory.>")]
    assert told == [("memory.put", "b", 1), ("memory.erased", "a", 3), ("memory.put", "a", 4)]
    entries = (await bot.ask("audit", namespace=NAMESPACE, key="a"))["items"]
    assert [entry["to_version"] for entry in entries if entry["operation"] != "erase"][:1] == [4]
    assert (await bot.ask("audit_verify"))["ok"]
    announcer = (await bot.worker.probe())["announcer"]
    assert announcer["losses"] == []


async def test_what_comes_behind_a_durable_erasure_waits_only_for_the_removal(bot: Agent, followed: set[str]) -> None:
    await bot.put("a", 1)
    await bot.command("erase", NAMESPACE, {"namespace": NAMESPACE}, id=bot.id("e1"))
    await bot.command("put", NAMESPACE, {"namespace": NAMESPACE, "key": "a", "value": 2}, id=bot.id("m1"))

    async def there() -> bool:
        return [each["version"] for each in await bot.pages("list", prefix=NAMESPACE)] == [3]

    await eventually(there, "what came behind it is there")
    assert await bot.dead() == []


async def test_so_many_workers_confirm_and_no_more(bot: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "CONFIRMATIONS", 3)
    receipt = (await bot.ask("erase", namespace=NAMESPACE))["receipt"]
    await bot.ask("erase_confirm", receipt=receipt, worker="one", removed=0)
    refused = await bot.refusal("erase_confirm", receipt=receipt, worker="two", removed=0)
    assert (refused.code, refused.context["limit"]) == (41301, 3)
    await bot.ask("erase_confirm", receipt=receipt, worker="one", removed=1)


class Gate:
    """Blocks an erasure of one tenant before each slice."""

    def __init__(self, bot: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open = asyncio.Event()
        self.reached = asyncio.Event()
        self.slices: list[int] = []
        erase = Eraser._erase_keys  # pyright: ignore[reportPrivateUsage]  # it is held up right there

        async def hold(eraser: Eraser, work: Any, keys: Any) -> None:
            if work.tenant == bot.tenant:
                self.reached.set()
                await self.open.wait()
                self.slices.append(len(keys))
            await erase(eraser, work, keys)

        monkeypatch.setattr(Eraser, "_erase_keys", hold)


async def test_one_that_takes_long_is_answered_before_it_is_done(bot: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(erasures, "PATIENCE_SECONDS", 0.1)
    monkeypatch.setattr(erasures, "SLICE", 2)
    gate = Gate(bot, monkeypatch)
    for key in range(5):
        await bot.put(f"k{key}", 1)
    receipt = await bot.ask("erase", namespace=NAMESPACE, id="e1")
    assert (receipt["status"], receipt["finished_at"], receipt["confirmed"]) == ("running", None, [])
    assert (await bot.ask("erase", namespace=NAMESPACE, id="e1"))["status"] == "running"
    # Another worker confirms the erasure while it runs.
    await bot.ask("erase_confirm", receipt=receipt["receipt"], worker="vectors", removed=1)
    gate.open.set()
    found = await done(bot, receipt["receipt"])
    assert (found["entries"], found["versions"], gate.slices) == (5, 5, [2, 2, 1])
    assert [each["worker"] for each in found["confirmed"]] == ["vectors", "memory", "feed"]
    assert await bot.ask("erase", namespace=NAMESPACE, id="e1") == found


async def test_one_that_was_held_up_spares_what_was_written_anew(bot: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker was frozen while another one did its work."""
    monkeypatch.setattr(erasures, "PATIENCE_SECONDS", 0.05)
    gate = Gate(bot, monkeypatch)
    for key in "ab":
        await bot.put(key, 1)
    receipt = (await bot.ask("erase", namespace=NAMESPACE))["receipt"]
    await bot.put("b", 2)
    await bot.announced()
    await bot.ledger.erase(MEMORY, bot.tenant, place_of(NAMESPACE, "a"), actor="another", cause="e2")
    await bot.announced()
    await bot.put("a", "anew")
    gate.open.set()
    await done(bot, receipt)
    assert await bot.keys() == ["a"]
    assert (await kept(bot, "a"), await kept(bot, "b")) == (1, 0)


async def test_a_durable_one_is_done_before_what_comes_behind_it(bot: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(erasures, "PATIENCE_SECONDS", 0.05)
    gate = Gate(bot, monkeypatch)
    await bot.put("a", 1)
    await bot.command("erase", NAMESPACE, {"namespace": NAMESPACE}, id=bot.id("e1"))
    await bot.command("put", NAMESPACE, {"namespace": NAMESPACE, "key": "a", "value": 2}, id=bot.id("m1"))
    await gate.reached.wait()
    gate.open.set()

    async def there() -> bool:
        return [each["version"] for each in await bot.pages("list", prefix=NAMESPACE)] == [3]

    await eventually(there, "what came behind it is there")
    (receipt,) = {each.body["value"]["receipt"] for each in await bot.feed() if each.what == "memory.erased"}
    found = await bot.ask("erasure", receipt=receipt)
    assert (found["entries"], found["requested_at"] < (await bot.memory("a"))["created_at"]) == (1, True)
    assert await bot.dead() == []


async def test_a_put_that_waited_in_the_stream_does_not_bring_it_back(
    bot: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A put that was published before the erasure is late, however long after it the put is delivered."""
    held, release = asyncio.Event(), asyncio.Event()
    wait = Eraser._wait  # pyright: ignore[reportPrivateUsage]  # a command is held up right there

    async def hold(eraser: Eraser, tenant: str, receipt: str, wanted: str) -> Any:
        if receipt == receipt_id(bot.tenant, "bot", bot.id("slow")):
            held.set()
            await release.wait()
        return await wait(eraser, tenant, receipt, wanted)

    monkeypatch.setattr(Eraser, "_wait", hold)
    for key in "ab":
        await bot.put(key, 1)
    await bot.command("erase", NAMESPACE, {"namespace": NAMESPACE, "key": "b"}, id=bot.id("slow"))
    await bot.command("put", NAMESPACE, {"namespace": NAMESPACE, "key": "a", "value": 2}, id=bot.id("late"))
    await held.wait()
    await bot.ask("erase", namespace=NAMESPACE, key="a")
    release.set()
    (letter,) = await bot.letters(1)
    assert letter.headers["Hive-Msg-Id"] == bot.id("late")
    assert (await bot.refusal("get", namespace=NAMESPACE, key="a")).code == 40401


async def test_a_store_that_is_away_for_a_moment_is_told_and_the_erasure_goes_on(
    bot: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erasures, "ABANDONED_MICROSECONDS", 0)
    erase, failures = bot.ledger.erase, list[str]()

    async def away(entity: Any, tenant: str, id: str, **options: Any) -> Any:
        if tenant == bot.tenant and not failures:
            failures.append(id)
            raise Unavailable("away", retry_after_ms=1)
        return await erase(entity, tenant, id, **options)

    monkeypatch.setattr(bot.ledger, "erase", away)
    await bot.put("a", 1)
    await bot.put("a", 2)
    refused = await bot.refusal("erase", namespace=NAMESPACE, key="a", id="e1")
    assert (refused.code, refused.error["retryable"]) == (50301, True)
    receipt = await bot.ask("erase", namespace=NAMESPACE, key="a", id="e1")
    found = await done(bot, receipt["receipt"])
    assert (found["entries"], found["versions"]) == (1, 2)


async def test_an_id_that_an_erasure_had_is_not_another_s(bot: Agent) -> None:
    """The receipt outlives the ledger's memory of the request."""
    await bot.put("a", 1)
    await bot.put("b", 1)
    receipt = (await bot.ask("erase", namespace=NAMESPACE, key="a", id="e1"))["receipt"]
    head = await bot.ledger.head(ERASURE, bot.tenant, receipt)
    assert head is not None
    order = rules.ErasureOrder((NAMESPACE,), "b", "bot", "e1")
    with pytest.raises(IdempotencyConflict):
        rules.begin_erasure(lambda entity, id: head, receipt, order, 1)  # type: ignore[arg-type]  # one head is enough
    same = rules.ErasureOrder((NAMESPACE,), "a", "bot", "e1")
    assert rules.begin_erasure(lambda entity, id: head, receipt, same, 1) == []  # type: ignore[arg-type]  # as above
