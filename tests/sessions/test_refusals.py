"""Mistakes of callers get the right codes, for headers and bodies, and no caller can misuse a worker."""

import asyncio
from typing import Any

import orjson
import pytest
from nats.aio.msg import Msg

from hivemem_contracts.sessions.operations import SESSIONS
from hivemem_runtime.bus.subscriptions import subscribe

from .hive import Agent, Body, Refused, eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")

OPERATIONS = [operation.name for operation in SESSIONS]


async def sent(bot: Agent, operation: str, data: bytes, headers: dict[str, str] | None = None) -> Refused:
    try:
        answer = await bot.send(operation, data, headers=headers)
    except Refused as refused:
        return refused
    raise AssertionError(f"not refused: {answer}")


async def test_an_error_has_two_headers_and_one_body(bot: Agent) -> None:
    refused = await bot.refusal("get", session_id="nobody")
    assert refused.headers["Nats-Service-Error-Code"] == "40401"
    assert refused.headers["Nats-Service-Error"] == "NotFound: session 'nobody' does not exist"
    assert refused.error == {
        "code": 40401,
        "name": "NotFound",
        "detail": "session 'nobody' does not exist",
        "retryable": False,
        "context": {"session_id": "nobody"},
    }


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_what_is_no_json_object_is_refused(bot: Agent, operation: str) -> None:
    for data in (b"{", b"[]", b"null", b'"text"', b"\xff", b'{"a":1}{', b"\x00"):
        refused = await sent(bot, operation, data)
        assert (refused.code, refused.context["field"]) == (40001, "body"), data


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_an_unknown_field_is_refused_by_name(bot: Agent, operation: str) -> None:
    required: dict[str, Body] = {
        "create": {"app_name": "a", "user_id": "u"},
        "append": {"session_id": "s", "event": {"type": "n"}},
        "append_batch": {"appends": [{"session_id": "s", "event": {"type": "n"}}]},
        "state_set": {"session_id": "s", "key": "k", "value": 1},
        "set_status": {"session_id": "s", "status": "active"},
        "shared": {"session_ids": ["s"]},
        "list": {},
        "app_put": {"app_name": "a", "state_indexes": []},
        "app_get": {"app_name": "a"},
        "machine_put": {"name": "m", "definition": {"initial": "a", "states": ["a"], "transitions": []}},
        "machine_get": {"name": "m"},
    }
    body = required.get(operation, {"session_id": "s"})
    for field in ("tenant", "agent", "surprise"):
        refused = await bot.refusal(operation, body, **{field: "other"})
        assert (refused.code, refused.context["field"]) == (40001, field)
        assert field in refused.error["detail"]


@pytest.mark.parametrize(
    ("operation", "body", "field"),
    [
        ("create", {"app_name": "a"}, "user_id"),
        ("create", {"app_name": "", "user_id": "u"}, "app_name"),
        ("create", {"app_name": " a", "user_id": "u"}, "app_name"),
        ("create", {"app_name": "a\n", "user_id": "u"}, "app_name"),
        ("create", {"app_name": "a", "user_id": "u", "metadata": []}, "metadata"),
        ("create", {"app_name": "a", "user_id": "u", "initial_state": {"": 1}}, "initial_state"),
        ("create", {"app_name": 5, "user_id": "u"}, "app_name"),
        ("append", {"session_id": "s"}, "event"),
        ("append", {"session_id": "s", "event": {}}, "event.type"),
        ("append", {"session_id": "s", "event": {"type": "n", "sequence": 5}}, "event.sequence"),
        ("append", {"session_id": "s", "event": {"type": "n"}, "expect_revision": -1}, "expect_revision"),
        ("append", {"session_id": "s", "event": {"type": "n"}, "expect_revision": True}, "expect_revision"),
        ("append_batch", {"appends": []}, "appends"),
        ("append_batch", {"appends": [{"session_id": "s", "event": {"type": 1}}]}, "appends.0.event.type"),
        ("state_set", {"session_id": "s", "key": "k"}, "value"),
        ("state_set", {"session_id": "s", "key": "", "value": 1}, "key"),
        ("events", {"session_id": "s", "limit": 1_001}, "limit"),
        ("events", {"session_id": "s", "after": -1}, "after"),
        ("fork", {"session_id": "s", "revision": 0}, "revision"),
    ],
)
async def test_a_wrong_field_is_named(bot: Agent, operation: str, body: Body, field: str) -> None:
    refused = await bot.refusal(operation, body)
    assert refused.code == 40001
    assert refused.context["field"].startswith(field)
    assert field.rpartition(".")[2] in refused.error["detail"]


async def test_a_body_over_the_limit_is_too_large(bot: Agent) -> None:
    refused = await sent(bot, "append", b'{"session_id":"' + b"x" * 1_000_000 + b'"}')
    assert (refused.code, refused.context["field"], refused.context["limit"]) == (41301, "body", 1_000_000)


async def test_json_that_no_store_could_hold_is_refused(bot: Agent) -> None:
    await bot.create("s1")
    for content in (b"1e999", b"NaN", b"-Infinity", b"18446744073709551616", b"[" * 101 + b"]" * 101, b'"\\ud800"'):
        data = b'{"session_id":"s1","event":{"type":"n","content":' + content + b"}}"
        assert (await sent(bot, "append", data)).code == 40001, content
    assert (await bot.session("s1"))["event_count"] == 0


async def test_every_portable_value_comes_back_as_it_was(bot: Agent) -> None:
    await bot.create("s1")
    deep: object = "end"
    for _ in range(90):
        deep = [deep]
    values: list[Any] = [
        2**63 - 1,
        -(2**63),
        0.1,
        1e308,
        '\u0000\u2028 \\ " 🐝',
        "",
        {},
        [],
        {"": {"$set": {".": 1}}},
        deep,
        None,
    ]
    await bot.append("s1", content=values, metadata={"$where": values[:8], "a.b": 1}, state_delta={"k.$": values[:9]})
    [event] = await bot.events("s1")
    assert (event["content"], event["metadata"]["$where"], event["state_delta"]) == (
        values,
        values[:8],
        {"k.$": values[:9]},
    )
    assert (await bot.session("s1"))["state"] == {"k.$": values[:9]}


async def test_a_message_id_that_is_too_long_is_refused(bot: Agent) -> None:
    refused = await sent(bot, "list", b"{}", {"Nats-Msg-Id": "x" * 257})
    assert (refused.code, refused.context["field"]) == (40001, "Nats-Msg-Id")


@pytest.mark.parametrize("token", ["a%2E", "%zz", "%FF", "%", "%41", "%2e"])
async def test_a_tenant_or_agent_that_is_misspelt_is_refused(bot: Agent, token: str) -> None:
    allowed = token == "a%2E"
    for subject in (f"hive.req.{token}.bot.sessions.list", f"hive.req.tenant.{token}.sessions.list"):
        message = await bot.client.request(subject, b"{}", timeout=5)
        code = (message.headers or {}).get("Nats-Service-Error-Code")
        assert code == (None if allowed else "40001")


async def test_an_answer_goes_to_inboxes_only(bot: Agent) -> None:
    """Otherwise a request could make the worker publish with its own rights on any subject."""
    heard: list[bytes] = []

    async def hear(message: Msg) -> None:
        heard.append(message.data)

    foreign = f"foreign.{bot.tenant}"
    subscription = await subscribe(bot.client, foreign, hear)
    body = orjson.dumps({"session_id": "s1", "app_name": "a", "user_id": "u"})
    await bot.client.publish(bot.subject("create"), body, reply=foreign)
    await bot.client.publish(bot.subject("get"), b"{", reply=foreign)
    await bot.client.publish(bot.subject("get"), b"{", reply=f"hive.chg.{bot.tenant}.session.s1")
    await bot.client.publish(bot.subject("list"), b"{}")

    async def there() -> bool:
        return len((await bot.ask("list"))["items"]) == 1

    await eventually(there, "the request that nobody hears of is done")
    await bot.client.flush()
    assert heard == []
    assert await bot.told() == [("session.created", 1)]
    await subscription.unsubscribe()


async def test_a_fault_of_the_worker_is_told_without_its_inside(bot: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = bot.ledger

    async def broken(*arguments: Any, **options: Any) -> Any:
        raise ValueError("secret")

    monkeypatch.setattr(ledger, "find", broken)
    refused = await bot.refusal("list")
    assert (refused.code, refused.error["retryable"], refused.context) == (50001, False, {})
    assert "secret" not in str(refused)
    assert "secret" not in refused.headers["Nats-Service-Error"]


async def test_a_fault_in_one_of_a_batch_is_a_fault_of_the_batch(bot: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    await bot.create("s1")
    ledger = bot.ledger
    commit, faults = ledger.commit, ["once"]

    def faulty(write: Any) -> Any:
        if write.tenant == bot.tenant and faults:
            faults.pop()
            future = asyncio.get_running_loop().create_future()
            future.set_exception(ValueError("secret"))
            return future
        return commit(write)

    monkeypatch.setattr(ledger, "commit", faulty)
    appends = [{"session_id": "s1", "event": {"type": "n"}} for _ in range(3)]
    assert (await bot.refusal("append_batch", id="m1", appends=appends)).code == 50001
    again = await bot.ask("append_batch", id="m1", appends=appends)
    assert sorted(result["duplicate"] for result in again["results"]) == [False, True, True]
    assert await bot.sequences("s1") == [1, 2, 3]


async def test_what_a_server_does_not_pass_is_told_as_too_large(bot: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    client = bot.worker._client  # pyright: ignore[reportPrivateUsage]  # as if its server were stricter
    assert client is not None
    await bot.create("s1")
    monkeypatch.setattr(client, "_max_payload", 200)
    refused = await bot.refusal("get", session_id="s1")
    assert (refused.code, refused.context["field"], refused.context["limit"]) == (41301, "answer", 200)


async def test_requests_from_many_agents_do_not_mix(bot: Agent) -> None:
    agents = [bot.called(f"agent-{n}") for n in range(20)]
    await asyncio.gather(*(agent.create(f"s{n}") for n, agent in enumerate(agents)))
    await asyncio.gather(*(agent.append(f"s{n}", content=n) for n, agent in enumerate(agents)))
    for n in range(20):
        [event] = await bot.events(f"s{n}")
        assert (event["author"], event["content"]) == (f"agent-{n}", n)
