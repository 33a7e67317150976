"""Hostile namespaces, keys and bodies are refused with the field's name, or kept exactly as they are."""

import json
from typing import Any

import pytest

from hivemem_contracts.subjects import encode_token

from .hive import NAMESPACE, Agent, Body, Refused

pytestmark = pytest.mark.asyncio(loop_scope="session")

WRITES: dict[str, Body] = {"put": {"value": 1}, "patch": {"patch": {}}, "delete": {}, "restore": {}}


@pytest.mark.parametrize("operation", WRITES)
@pytest.mark.parametrize(
    "namespace",
    [
        "",
        "user",
        "alice",
        "alice:user",
        "User:alice",
        "user.alice",
        ":user:alice",
        " user:alice",
        "user:alice ",
        "user:al\x01ice",
        "user:al\x02ice",
        "user:alice\n",
        "user:",
        "user::alice",
        "user:alice:",
        "user:alice::notes",
        "user:\x00",
        "users:alice",
        "user:" + "x" * 252,
        None,
        5,
        ["user:alice"],
    ],
)
async def test_what_is_no_namespace_is_refused_by_name(bot: Agent, operation: str, namespace: Any) -> None:
    refused = await bot.refusal(operation, {"namespace": namespace, "key": "k", **WRITES[operation]})
    assert (refused.code, refused.context["field"]) == (40001, "namespace")
    assert refused.error["detail"].startswith("namespace: ")


@pytest.mark.parametrize("operation", WRITES)
@pytest.mark.parametrize("key", ["", " k", "k ", "k\x00", "k\x01", "\u0085", "\n", "x" * 257, None, 1, True, {}])
async def test_what_is_no_key_is_refused_by_name(bot: Agent, operation: str, key: Any) -> None:
    refused = await bot.refusal(operation, {"namespace": NAMESPACE, "key": key, **WRITES[operation]})
    assert (refused.code, refused.context["field"]) == (40001, "key")


NAMES = [
    "a.b",
    "*",
    ">",
    "%k",
    "a:b",
    "a/b\\c",
    "$where",
    "' OR 1=1 --",
    "ключ",
    "🐝" * 20,
    "x" * 248,
    "a b",
    "%",
    "\u202e",
    "..",
]


@pytest.mark.parametrize("name", NAMES)
async def test_any_other_text_is_a_name(bot: Agent, name: str) -> None:
    for namespace in ("app:n", f"project:{name}"):
        await bot.ask("put", namespace=namespace, key=name, value=name)
        memory = await bot.ask("get", namespace=namespace, key=name)
        assert (memory["namespace"], memory["key"], memory["value"]) == (namespace, name, name)
        await bot.ask("delete", namespace=namespace, key=name)
        await bot.ask("restore", namespace=namespace, key=name)
    tokens = ".".join(map(encode_token, f"project:{name}".split(":")))
    subject = f"memory.{tokens}.%k.{encode_token(name)}"
    assert [change.body["version"] for change in await bot.feed(subject)] == [1, 2, 3]


async def test_a_memory_that_could_not_be_announced_is_refused_before_it_is_kept(bot: Agent) -> None:
    long = "🐝" * 250
    refused = await bot.refusal("put", namespace=f"user:{long}", key=long, value=1)
    assert (refused.code, refused.context["field"], refused.context["limit"]) == (41301, "subject", 3_500)
    assert refused.context["actual"] > 3_500
    assert (await bot.refusal("get", namespace=f"user:{long}", key=long)).code == 40401
    await bot.ask("put", namespace=f"user:{'x' * 250}", key="y" * 256, value=1)
    assert len(await bot.feed()) == 1


@pytest.mark.parametrize(
    ("operation", "body", "field"),
    [
        ("put", {"namespace": NAMESPACE, "key": "k"}, "value"),
        ("put", {"namespace": NAMESPACE, "value": 1}, "key"),
        ("put", {"namespace": NAMESPACE, "key": "k", "value": 1, "memory_type": "vague"}, "memory_type"),
        ("put", {"namespace": NAMESPACE, "key": "k", "value": 1, "metadata": []}, "metadata"),
        ("put", {"namespace": NAMESPACE, "key": "k", "value": 1, "importance": 1.1}, "importance"),
        ("put", {"namespace": NAMESPACE, "key": "k", "value": 1, "importance": "1"}, "importance"),
        ("put", {"namespace": NAMESPACE, "key": "k", "value": 1, "valid_from": "2026-01-01"}, "valid_from"),
        ("put", {"namespace": NAMESPACE, "key": "k", "value": 1, "expires_at": "2026-01-01T00:00:00"}, "expires_at"),
        ("put", {"namespace": NAMESPACE, "key": "k", "value": 1, "expect_version": -1}, "expect_version"),
        ("put", {"namespace": NAMESPACE, "key": "k", "value": 1, "source": {"event_id": "e"}}, "source.session_id"),
        ("put", {"namespace": NAMESPACE, "key": "k", "value": 1, "lease": {"token": 1}}, "lease.namespace"),
        ("put", {"namespace": NAMESPACE, "key": "k", "value": 1, "tenant": "other"}, "tenant"),
        ("put", {"namespace": NAMESPACE, "key": "k", "value": 1, "created_by": "other"}, "created_by"),
        ("put", {"namespace": NAMESPACE, "key": "k", "value": 1, "version": 3}, "version"),
        ("patch", {"namespace": NAMESPACE, "key": "k"}, "patch"),
        ("restore", {"namespace": NAMESPACE, "key": "k", "version": 0}, "version"),
        ("delete", {"namespace": NAMESPACE, "key": "k", "expect_version": True}, "expect_version"),
    ],
)
async def test_a_wrong_field_is_named(bot: Agent, operation: str, body: Body, field: str) -> None:
    refused = await bot.refusal(operation, body)
    assert (refused.code, refused.context["field"]) == (40001, field)
    assert refused.error["detail"].startswith(f"{field}: ")


@pytest.mark.parametrize("operation", [*WRITES, "put_batch"])
async def test_what_is_no_json_object_is_refused(bot: Agent, operation: str) -> None:
    for data in (b"{", b"[]", b"null", b"\xff", b'{"a":1}{', b""):
        with pytest.raises(Refused) as refused:
            await bot.send(operation, data)
        assert refused.value.code == 40001, data


async def test_json_that_no_store_could_hold_is_refused(bot: Agent) -> None:
    for value in (b"1e999", b"NaN", b"18446744073709551616", b"[" * 101 + b"]" * 101, b'"\\ud800"'):
        data = b'{"namespace":"user:alice","key":"k","value":' + value + b"}"
        with pytest.raises(Refused) as refused:
            await bot.send("put", data)
        assert refused.value.code == 40001, value
    with pytest.raises(Refused) as refused:
        await bot.send("put", json.dumps({"namespace": NAMESPACE, "key": "k", "value": "x" * 1_000_000}).encode())
    assert (refused.value.code, refused.value.context["field"]) == (41301, "body")
    assert await bot.told() == []
