"""Bytes uploaded to the object store by HTTP are verified before they become the file."""

import asyncio
import os
import urllib.error
import urllib.request
from hashlib import sha256
from typing import Any

import pytest

from .conftest import Deployment
from .hive import Agent, Body

pytestmark = pytest.mark.asyncio(loop_scope="session")

DATA = os.urandom(300_000)
DIGEST = sha256(DATA).hexdigest()


@pytest.fixture(autouse=True)
def only_where_a_store_can(deployment: Deployment) -> None:
    if not deployment.store.presigned.able:
        pytest.skip("files have no URLs")


async def put(url: str, data: bytes) -> int:
    def send() -> int:
        with urllib.request.urlopen(urllib.request.Request(url, data, method="PUT")) as answer:  # a URL of our server
            return int(answer.status)

    return await asyncio.to_thread(send)


async def get(url: str) -> tuple[bytes, dict[str, str]]:
    def receive() -> tuple[bytes, dict[str, str]]:
        with urllib.request.urlopen(url) as answer:  # a URL of our server
            return answer.read(), dict(answer.headers)

    return await asyncio.to_thread(receive)


async def begin(bot: Agent, **fields: Any) -> Body:
    return await bot.begin("a.bin", size=len(DATA), presigned=True, **fields)


async def test_what_was_put_becomes_the_file(bot: Agent) -> None:
    upload = await begin(bot, sha256=DIGEST)
    assert await put(upload["put_url"], DATA) == 200
    saved = await bot.ask("commit", upload_id=upload["upload_id"])
    assert (saved["size"], saved["sha256"]) == (len(DATA), DIGEST)
    content = await bot.ask("get", session_id="s1", name="a.bin", presigned=True)
    assert content["data_base64"] is None
    data, headers = await get(content["get_url"])
    assert data == DATA
    assert headers["Content-Type"] == saved["content_type"]
    assert "a.bin" in headers["Content-Disposition"]


async def test_wrong_bytes_are_refused(bot: Agent) -> None:
    upload = await begin(bot)
    await put(upload["put_url"], DATA[::-1])
    refused = await bot.refusal("commit", upload_id=upload["upload_id"], sha256=DIGEST)
    assert (refused.code, refused.context["field"]) == (40001, "sha256")
    await put(upload["put_url"], DATA)
    assert (await bot.ask("commit", upload_id=upload["upload_id"], sha256=DIGEST))["version"] == 1


@pytest.mark.parametrize("change", [-1, 1])
async def test_a_truncated_or_longer_object_is_refused(bot: Agent, change: int) -> None:
    upload = await begin(bot, sha256=DIGEST)
    await put(upload["put_url"], (DATA + b"x")[: len(DATA) + change])
    refused = await bot.refusal("commit", upload_id=upload["upload_id"])
    assert (refused.code, refused.context["field"]) == (40001, "size")
    assert (await bot.refusal("stat", session_id="s1", name="a.bin")).code == 40401


async def test_a_missing_object_is_refused(bot: Agent) -> None:
    upload = await begin(bot, sha256=DIGEST)
    refused = await bot.refusal("commit", upload_id=upload["upload_id"])
    assert (refused.code, refused.context["field"]) == (40001, "put_url")


async def test_a_presigned_upload_says_its_size_and_its_hash(bot: Agent) -> None:
    refused = await bot.refusal("begin", session_id="s1", name="a", presigned=True)
    assert (refused.code, refused.context["field"]) == (40001, "size")
    upload = await begin(bot)
    await put(upload["put_url"], DATA)
    refused = await bot.refusal("commit", upload_id=upload["upload_id"])
    assert (refused.code, refused.context["field"]) == (40001, "sha256")


async def test_a_presigned_upload_is_resumed_and_given_up(bot: Agent) -> None:
    upload = await begin(bot, sha256=DIGEST)
    again = await bot.ask("resume", upload_id=upload["upload_id"])
    await put(again["put_url"], DATA)
    assert (await bot.ask("abort", upload_id=upload["upload_id"]))["aborted"]
    assert (await bot.refusal("commit", upload_id=upload["upload_id"])).code == 40401


async def test_no_other_object_can_be_put_by_the_url(bot: Agent) -> None:
    upload = await begin(bot, sha256=DIGEST)
    elsewhere = upload["put_url"].replace(upload["upload_id"], "another")
    assert elsewhere != upload["put_url"]
    with pytest.raises(urllib.error.HTTPError) as refused:
        await put(elsewhere, DATA)
    assert refused.value.code == 403
    refused.value.close()
