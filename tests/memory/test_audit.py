"""Every write, every refusal and every export is a link of the tenant's chain."""

import itertools
from typing import Any

import pytest

from hivemem_contracts.errors import Unavailable
from hivemem_memory.endpoints import audit_trail
from hivemem_memory.entities.audit import CHAIN, CHAIN_ID

from .chains import chain_is_current
from .hive import NAMESPACE, Agent, Body

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def links(bot: Agent, /, **fields: Any) -> list[Body]:
    """Return the links, oldest first, once the chain includes everything so far."""
    await chain_is_current(bot)
    return (await bot.pages("audit", **fields))[::-1]


async def linked(bot: Agent) -> list[str | None]:
    """Return the error of each link that the chain has now, None for a done one."""
    records = await bot.ledger.history(CHAIN, bot.tenant, CHAIN_ID, limit=1_000)
    return [record.value.error for record in records]


async def test_every_write_is_a_link(bot: Agent) -> None:
    await bot.put("a", 1, id="m1")
    await bot.called("other").patch("a", 2, id="m2")
    await bot.delete("a", id="m3")
    await bot.restore("a", id="m4")
    found = await links(bot)
    assert [(link["position"], link["operation"], link["to_version"]) for link in found] == [
        (1, "put", 1),
        (2, "put", 2),
        (3, "deleted", 3),
        (4, "restored", 4),
    ]
    versions = await bot.versions("a")
    for link, version in zip(found, versions, strict=True):
        assert (link["namespace"], link["key"]) == (NAMESPACE, "a")
        assert (link["from_version"] or 0) == version["version"] - 1
        assert (link["at"], link["actor"]) == (version["updated_at"], version["updated_by"])
        assert (link["request_id"], link["digest"]) == (version["request_id"], version["digest"])
        assert (link["outcome"], link["error"]) == ("done", None)


async def test_links_are_found_by_the_task_of_their_source(bot: Agent) -> None:
    source = {"task_id": "t1"}
    await bot.ask("put", namespace=NAMESPACE, key="a", value="x" * 250_000, source=source)
    await bot.ask("put", namespace=NAMESPACE, key="b", value=1, source={"task_id": "t2"})
    await bot.ask("patch", namespace=NAMESPACE, key="b", patch={"x": 1}, source=source)
    await bot.refusal("put", namespace=NAMESPACE, key="b", value=1, expect_version=9, source=source)
    await bot.ask("delete", namespace=NAMESPACE, key="b", source={"task_id": "t3"})

    found = await links(bot, task_id="t1")
    # A refusal may be linked before earlier writes.
    assert {(link["key"], link["to_version"], link["error"]) for link in found} == {
        ("a", 1, None),
        ("b", 2, None),
        ("b", None, "RevisionConflict"),
    }
    assert [link["operation"] for link in await links(bot, task_id="t3", namespace=NAMESPACE)] == ["deleted"]
    assert (await bot.ask("audit_verify"))["ok"]


async def test_an_agent_sees_its_own_write_at_once(bot: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_trail, "CATCH_UP_SECONDS", 15.0)
    for turn in range(1, 11):
        await bot.put("a", turn)
        page = await bot.ask("audit", limit=1)
        assert (page["items"][0]["to_version"], page["behind"]) == (turn, 0)


async def test_a_tenant_sees_nothing_of_another(bot: Agent) -> None:
    await bot.put("a", 1)
    page = await Agent(bot.client, bot.worker, f"{bot.tenant}-other").ask("audit")
    assert page == {"items": [], "cursor": None, "behind": 0}


async def test_the_digest_of_what_is_too_large_for_the_feed_is_there_too(bot: Agent) -> None:
    await bot.put("a", "x" * 100_000)
    (link,) = await links(bot)
    assert link["digest"] == (await bot.memory("a"))["digest"]


async def test_any_filters_find_what_they_say(bot: Agent) -> None:
    agents = [bot.called(name) for name in ("one", "two")]
    places = [(NAMESPACE, "a"), (f"{NAMESPACE}:deep", "a"), ("user:alicex", "a"), ("app:x", "b")]
    for agent, (namespace, key) in itertools.product(agents, places):
        await agent.ask("put", namespace=namespace, key=key, value=1)
        await agent.ask("delete", namespace=namespace, key=key)
        await agent.refusal("delete", namespace=namespace, key=key)
    every = await links(bot)
    assert len(every) == 24
    middle = every[12]["at"]
    choices: dict[str, list[Any]] = {
        "namespace": [None, NAMESPACE, "user", "app:x"],
        "key": [None, "a", "b"],
        "actor": [None, "one"],
        "operation": [None, "put", "delete", "nothing"],
        "since": [None, middle],
        "until": [None, middle],
    }
    for chosen in itertools.product(*choices.values()):
        asked = {name: value for name, value in zip(choices, chosen, strict=True) if value is not None}
        if "key" in asked and "namespace" not in asked:
            continue
        assert await links(bot, limit=5, **asked) == [link for link in every if is_meant(link, asked)], asked


def is_meant(link: Body, asked: Body) -> bool:
    namespace, key = asked.get("namespace"), asked.get("key")
    if key is not None:
        placed = (link["namespace"], link["key"]) == (namespace, key)
    else:
        placed = namespace is None or f"{link['namespace']}:".startswith(f"{namespace}:")
    return (
        placed
        and all(link[name] == asked[name] for name in ("actor", "operation") if name in asked)
        and asked.get("since", "") <= link["at"] < asked.get("until", "9")
    )


async def test_a_key_is_one_of_a_namespace(bot: Agent) -> None:
    refused = await bot.refusal("audit", key="a")
    assert (refused.code, refused.context["field"]) == (40001, "key")


async def test_a_cursor_belongs_to_its_filters(bot: Agent) -> None:
    for key in "abc":
        await bot.put(key, 1)
    cursor = (await bot.ask("audit", limit=1))["cursor"]
    assert (await bot.refusal("audit", limit=1, actor="bot", cursor=cursor)).code == 40001


async def test_a_request_looks_at_so_many_links_and_goes_on_in_the_next(
    bot: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_trail, "STEP", 3)
    monkeypatch.setattr(audit_trail, "LOOKED_AT", 6)
    await bot.called("first").put("a", 1)
    for turn in range(20):
        await bot.put("a", turn)
    page = await bot.ask("audit", namespace=NAMESPACE, actor="first")
    assert page["items"] == []
    assert page["cursor"] is not None
    assert [link["position"] for link in await links(bot, namespace=NAMESPACE, actor="first")] == [1]


async def test_a_page_ends_before_it_is_too_large(bot: Agent) -> None:
    namespace, key = "user:" + "\u00e4" * 250, "\u00e4" * 256
    for _ in range(600):
        await bot.refusal("delete", namespace=namespace, key=key)
    page = await bot.ask("audit", limit=1_000)
    assert 0 < len(page["items"]) < 600
    assert len(await links(bot, limit=1_000)) == 600


REFUSED: tuple[tuple[str, Body, str, str | None, str | None], ...] = (
    ("put", {"namespace": NAMESPACE, "key": "a", "value": 1, "expect_version": 7}, "RevisionConflict", NAMESPACE, "a"),
    ("put", {"namespace": NAMESPACE, "key": "a", "value": 1, "nonsense": 1}, "InvalidRequest", NAMESPACE, "a"),
    ("put", {"namespace": NAMESPACE, "key": " a", "value": 1}, "InvalidRequest", NAMESPACE, None),
    ("put", {"namespace": "nowhere", "key": "a", "value": 1}, "InvalidRequest", None, None),
    ("put", {"namespace": NAMESPACE, "key": "a", "value": "x" * 600_000}, "TooLarge", NAMESPACE, "a"),
    ("patch", {"namespace": NAMESPACE, "key": "b", "patch": {}}, "NotFound", NAMESPACE, "b"),
    ("delete", {"namespace": NAMESPACE, "key": "b"}, "NotFound", NAMESPACE, "b"),
    ("restore", {"namespace": NAMESPACE, "key": "b"}, "NotFound", NAMESPACE, "b"),
    ("erase", {"namespace": NAMESPACE, "key": "b"}, "NotFound", NAMESPACE, "b"),
    ("erase_confirm", {"receipt": "none", "worker": "w", "removed": 0}, "NotFound", None, None),
    ("put_batch", {"puts": []}, "InvalidRequest", None, None),
    ("release", {"namespace": NAMESPACE, "key": "a"}, "InvalidRequest", NAMESPACE, "a"),
)


@pytest.mark.parametrize(("operation", "body", "error", "namespace", "key"), REFUSED)
async def test_a_refusal_is_a_link_before_it_is_answered(
    bot: Agent, operation: str, body: Body, error: str, namespace: str | None, key: str | None
) -> None:
    refused = await bot.refusal(operation, body, id="m1")
    assert refused.error["name"] == error
    assert await linked(bot) == [error]
    (link,) = await links(bot)
    assert (link["operation"], link["outcome"], link["error"]) == (operation, "refused", error)
    assert (link["namespace"], link["key"], link["to_version"]) == (namespace, key, None)
    assert (link["actor"], link["request_id"]) == ("bot", "m1")


async def test_what_is_no_json_is_a_link_too(bot: Agent) -> None:
    for data in (b"", b"nonsense", b"[1]", b'{"namespace": 1}'):
        with pytest.raises(Exception, match="InvalidRequest"):
            await bot.send("put", data)
    assert await linked(bot) == ["InvalidRequest"] * 4


async def test_a_message_id_that_is_too_long_is_cut_in_its_link(bot: Agent) -> None:
    refused = await bot.refusal("put", namespace=NAMESPACE, key="a", value=1, id="x" * 300)
    assert refused.context["field"] == "Nats-Msg-Id"
    (link,) = await links(bot)
    assert (link["error"], link["request_id"], link["key"]) == ("InvalidRequest", "x" * 256, "a")


async def test_the_same_request_refused_again_is_one_link(bot: Agent) -> None:
    for _ in range(3):
        await bot.refusal("delete", namespace=NAMESPACE, key="a", id="m1")
    await bot.refusal("delete", namespace=NAMESPACE, key="a", id="m2")
    assert await linked(bot) == ["NotFound", "NotFound"]


async def test_a_read_that_is_refused_is_none(bot: Agent) -> None:
    assert (await bot.refusal("get", namespace=NAMESPACE, key="a")).code == 40401
    assert (await bot.refusal("audit", nonsense=1)).code == 40001
    assert await linked(bot) == []


async def test_what_may_succeed_later_is_none(bot: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*arguments: Any) -> Any:
        raise Unavailable("away", retry_after_ms=1)

    with monkeypatch.context() as patched:
        patched.setattr(bot.ledger, "commit", away)
        assert (await bot.refusal("put", namespace=NAMESPACE, key="a", value=1)).code == 50301
    assert await linked(bot) == []


async def test_a_refusal_that_cannot_be_linked_is_answered_as_one_to_try_again(
    bot: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = bot.ledger.commit

    def away(write: Any) -> Any:
        if write.entity is CHAIN and write.tenant == bot.tenant:
            raise Unavailable("away", retry_after_ms=1)
        return commit(write)

    with monkeypatch.context() as patched:
        patched.setattr(bot.ledger, "commit", away)
        refused = await bot.refusal("delete", namespace=NAMESPACE, key="a", id="m1")
    assert (refused.code, refused.error["retryable"]) == (50301, True)
    assert (await bot.refusal("delete", namespace=NAMESPACE, key="a", id="m1")).code == 40401
    assert await linked(bot) == ["NotFound"]


async def test_each_refused_part_of_a_batch_is_a_link(bot: Agent) -> None:
    puts = [
        {"namespace": NAMESPACE, "key": "a", "value": 1, "expect_version": 3},
        {"namespace": NAMESPACE, "key": "b", "value": 1},
        {"namespace": "app:x", "key": "c", "value": 1, "expires_at": "2000-01-01T00:00:00Z"},
    ]
    for _ in range(2):
        results = (await bot.ask("put_batch", puts=puts, id="m1"))["results"]
        assert [result["error"]["name"] if result.get("error") else None for result in results] == [
            "RevisionConflict",
            None,
            "InvalidRequest",
        ]
    found = [(link["operation"], link["namespace"], link["key"], link["error"]) for link in await links(bot)]
    assert sorted(found, key=lambda link: str(link[2])) == [
        ("put_batch", NAMESPACE, "a", "RevisionConflict"),
        ("put", NAMESPACE, "b", None),
        ("put_batch", "app:x", "c", "InvalidRequest"),
    ]


async def test_each_refused_line_of_an_import_is_a_link(bot: Agent) -> None:
    items = [
        {"namespace": NAMESPACE, "key": "a", "value": 1},
        {"namespace": NAMESPACE, "key": "b", "value": 1, "expires_at": "2000-01-01T00:00:00Z"},
    ]
    results = (await bot.ask("import", items=items, id="m1"))["results"]
    assert [result["outcome"] for result in results] == ["created", "refused"]
    found = [(link["operation"], link["key"], link["error"]) for link in await links(bot)]
    assert sorted(found) == [("import", "b", "InvalidRequest"), ("put", "a", None)]


async def test_a_batch_that_was_refused_as_a_command_is_one_link(bot: Agent) -> None:
    puts = [
        {"namespace": NAMESPACE, "key": "a", "value": 1},
        {"namespace": NAMESPACE, "key": "b", "value": 1, "expect_version": 3},
    ]
    await bot.command("put_batch", NAMESPACE, {"puts": puts}, id=bot.id("m1"))
    await bot.letters(1)
    found = [(link["operation"], link["key"], link["error"]) for link in await links(bot)]
    assert sorted(found, key=str) == [("put", "a", None), ("put_batch", None, "RevisionConflict")]


async def test_an_export_is_a_link_before_the_first_of_it_is_handed_out(bot: Agent) -> None:
    for key in "abc":
        await bot.put(key, 1)
    await bot.pages("export", prefix="user", limit=1)
    found = [link for link in await links(bot) if link["operation"] == "export"]
    assert [(link["namespace"], link["key"], link["outcome"], link["actor"]) for link in found] == [
        ("user", None, "done", "bot")
    ]
    assert (await links(bot, namespace="user", operation="export")) == found
    assert (await bot.ask("audit_verify"))["ok"]


async def test_a_dead_letter_is_a_link(bot: Agent) -> None:
    await bot.command("delete", NAMESPACE, {"namespace": NAMESPACE, "key": "a"}, id=bot.id("m1"))
    await bot.command("put", NAMESPACE, {"namespace": NAMESPACE, "nonsense": 1}, id=bot.id("m2"))
    await bot.letters(2)
    found = await links(bot)
    assert [(link["operation"], link["error"], link["request_id"]) for link in found] == [
        ("delete", "NotFound", bot.id("m1")),
        ("put", "InvalidRequest", bot.id("m2")),
    ]


async def test_a_dead_letter_waits_for_its_link(bot: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    commit, failures = bot.ledger.commit, list[Any]()

    def away(write: Any) -> Any:
        if write.entity is CHAIN and write.tenant == bot.tenant and len(failures) < 2:
            failures.append(write)
            raise Unavailable("away", retry_after_ms=1)
        return commit(write)

    with monkeypatch.context() as patched:
        patched.setattr(bot.ledger, "commit", away)
        await bot.command("delete", NAMESPACE, {"namespace": NAMESPACE, "key": "a"}, id=bot.id("m1"))
        await bot.letters(1)
    assert len(failures) == 2
    assert await linked(bot) == ["NotFound"]


async def test_an_erasure_is_linked_and_takes_no_link_away(bot: Agent) -> None:
    await bot.put("a", 1)
    await bot.put("a", 2)
    await bot.ask("erase", namespace=NAMESPACE, key="a", id="e1")
    found = await links(bot, namespace=NAMESPACE, key="a")
    assert [(link["operation"], link["from_version"], link["to_version"]) for link in found] == [
        ("put", None, 1),
        ("put", 1, 2),
        ("erased", 2, 3),
    ]
    assert (found[2]["request_id"], found[2]["digest"]) == ("e1", None)


async def test_refusals_and_writes_at_once_make_one_chain(bot: Agent) -> None:
    for key in range(100):
        await bot.put(f"k{key}", 1)
        await bot.refusal("put", namespace=NAMESPACE, key=f"k{key}", value=1, expect_version=0)
    found = await links(bot, limit=1_000)
    assert [link["position"] for link in found] == list(range(1, 201))
    assert sum(link["outcome"] == "refused" for link in found) == 100
    assert (await bot.ask("audit_verify"))["ok"]
