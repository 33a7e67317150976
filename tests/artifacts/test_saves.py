"""Small files are saved whole and read whole, version by version."""

import asyncio
from base64 import b64encode
from hashlib import sha256

import pytest

from .hive import Agent

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_saved_file_is_read_as_it_was(bot: Agent) -> None:
    saved = await bot.save("notes/a.txt", b"hello", metadata={"by": "hand"})
    assert {name: saved[name] for name in ("session_id", "name", "version", "size", "metadata", "created_by")} == {
        "session_id": "s1",
        "name": "notes/a.txt",
        "version": 1,
        "size": 5,
        "metadata": {"by": "hand"},
        "created_by": "bot",
    }
    assert saved["sha256"] == sha256(b"hello").hexdigest()
    assert saved["url"] == f"hive://{bot.tenant}/s1/notes/a.txt?version=1"
    assert await bot.stat("notes/a.txt") == saved
    assert await bot.content("notes/a.txt") == b"hello"


async def test_each_save_is_the_next_version_and_the_older_ones_stay(bot: Agent) -> None:
    for version in range(1, 4):
        assert (await bot.save("a", f"v{version}".encode()))["version"] == version
    assert [await bot.content("a", version=version) for version in (1, 2, 3)] == [b"v1", b"v2", b"v3"]
    assert await bot.content("a") == b"v3"
    assert [item["version"] for item in await bot.pages("versions", name="a", limit=2)] == [3, 2, 1]
    assert len({item["artifact_id"] for item in await bot.pages("versions", name="a")}) == 1


async def test_fifty_savers_of_one_name_make_fifty_versions(bot: Agent) -> None:
    saved = await asyncio.gather(*(bot.save("a", f"{n % 7}".encode()) for n in range(50)))
    assert sorted(each["version"] for each in saved) == list(range(1, 51))
    for each in saved:
        assert sha256(await bot.content("a", version=each["version"])).hexdigest() == each["sha256"]


async def test_a_repeated_save_answers_the_first_result(bot: Agent) -> None:
    first = await bot.save("a", b"x", id="m1")
    assert await bot.save("a", b"x", id="m1") == first
    assert (await bot.save("a", b"x", id="m2"))["version"] == 2


async def test_an_empty_file_is_a_file(bot: Agent) -> None:
    saved = await bot.save("empty", b"")
    assert (saved["size"], await bot.content("empty")) == (0, b"")


async def test_a_file_of_the_largest_inline_size_goes_in_one_request(bot: Agent) -> None:
    data = bytes(range(256)) * 2_048
    assert (await bot.save("a", data))["size"] == 524_288
    assert await bot.content("a") == data


async def test_what_is_too_large_for_one_request_is_refused(bot: Agent) -> None:
    refused = await bot.refusal("save", session_id="s1", name="a", data_base64=b64encode(b"x" * 524_289).decode())
    assert (refused.code, refused.context["field"]) == (41301, "data_base64")


@pytest.mark.parametrize("data", ["?", "YQ", "YQ==YQ==", "Y Q=="])
async def test_data_that_is_no_base64_is_refused(bot: Agent, data: str) -> None:
    refused = await bot.refusal("save", session_id="s1", name="a", data_base64=data)
    assert (refused.code, refused.context["field"]) == (40001, "data_base64")


async def test_bytes_with_another_hash_than_said_are_refused(bot: Agent) -> None:
    refused = await bot.refusal("save", session_id="s1", name="a", data_base64="YQ==", sha256="0" * 64)
    assert (refused.code, refused.context["field"]) == (40001, "sha256")
    assert (await bot.refusal("stat", session_id="s1", name="a")).code == 40401


async def test_a_range_is_read(bot: Agent) -> None:
    await bot.save("a", b"0123456789")
    assert await bot.content("a", offset=3, length=4) == b"3456"
    assert await bot.content("a", offset=8) == b"89"
    assert await bot.content("a", offset=8, length=100) == b"89"
    assert await bot.content("a", offset=10) == b""
    assert await bot.content("a", length=0) == b""
    refused = await bot.refusal("get", session_id="s1", name="a", offset=11)
    assert (refused.code, refused.context) == (40001, {"field": "offset"})
    refused = await bot.refusal("get", session_id="s1", name="a", length=524_289)
    assert (refused.code, refused.context["field"]) == (41301, "length")


async def test_what_does_not_exist_is_not_found(bot: Agent) -> None:
    await bot.save("a", b"x")
    for operation in ("get", "stat", "versions", "delete"):
        assert (await bot.refusal(operation, session_id="s1", name="b")).code == 40401
        assert (await bot.refusal(operation, session_id="s2", name="a")).code == 40401
    assert (await bot.refusal("stat", session_id="s1", name="a", version=2)).code == 40401


async def test_a_tenant_sees_nothing_of_another(bot: Agent) -> None:
    await bot.save("a", b"x")
    stranger = bot.called("bot")
    stranger.tenant = bot.tenant + "x"
    assert (await stranger.refusal("get", session_id="s1", name="a")).code == 40401
    assert (await stranger.ask("list", session_id="s1"))["items"] == []


async def test_a_list_goes_by_name_and_prefix(bot: Agent) -> None:
    for name in ("b", "a/2", "a/1", "a", "ä", "a0"):
        await bot.save(name, name.encode())
    assert [item["name"] for item in await bot.pages("list", limit=2)] == ["a", "a/1", "a/2", "a0", "b", "ä"]
    assert [item["name"] for item in await bot.pages("list", prefix="a/")] == ["a/1", "a/2"]
    assert await bot.pages("list", prefix="c") == []
    assert [item["name"] for item in await bot.pages("manifest", limit=4)] == ["a", "a/1", "a/2", "a0", "b", "ä"]
    entry = (await bot.ask("manifest", session_id="s1"))["items"][0]
    assert sorted(entry) == ["content_type", "name", "sha256", "size", "timestamp", "url", "version"]


async def test_pages_end_before_an_answer_grows_too_large(bot: Agent) -> None:
    metadata = {"text": "x" * 16_000}
    await asyncio.gather(*(bot.save(f"{n:03}", b"", metadata=metadata) for n in range(80)))
    page = await bot.ask("list", session_id="s1", limit=1_000)
    assert 10 < len(page["items"]) < 80
    assert len(await bot.pages("list", limit=1_000)) == 80


async def test_saves_are_told_in_order(bot: Agent) -> None:
    first = await bot.save("a/b.txt", b"1")
    await bot.save("a/b.txt", b"2")
    told = await bot.feed("artifact.>")
    assert [(change.what, change.body["version"], change.body["previous_version"]) for change in told] == [
        ("artifact.saved", 1, None),
        ("artifact.saved", 2, 1),
    ]
    assert told[0].subject == f"hive.chg.{bot.tenant}.artifact.s1.%k.a%2Fb%2Etxt"
    assert (told[0].body["namespace"], told[0].body["key"], told[0].body["value"]) == ("s1", "a/b.txt", first)


async def test_a_save_may_be_left_with_the_bus(bot: Agent) -> None:
    body = {"session_id": "s1", "name": "a", "data_base64": "YQ=="}
    await bot.command("save", "s1", body, id=bot.id("m1"))
    told = await bot.feed_of(1, "artifact.>")
    assert told[0].body["cause"] == bot.id("m1")
    assert await bot.content("a") == b"a"
