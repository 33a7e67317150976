"""One idempotency key means one command, for each operation that writes."""

from base64 import b64encode

import pytest

from hivemem_contracts.artifacts.operations import ARTIFACTS
from hivemem_testing.idempotency import check_one_command, writes_of

from .hive import Agent, Body

pytestmark = pytest.mark.asyncio(loop_scope="session")


def saving(name: str, data: bytes) -> Body:
    return {"session_id": "s1", "name": name, "data_base64": b64encode(data).decode(), "metadata": {"a": 1, "b": 2}}


async def save(bot: Agent) -> tuple[Body, Body]:
    return saving("a.txt", b"one"), saving("a.txt", b"two")


async def begin(bot: Agent) -> tuple[Body, Body]:
    return {"session_id": "s1", "name": "a.txt"}, {"session_id": "s1", "name": "b.txt"}


async def sent(bot: Agent) -> tuple[Body, Body]:
    bodies: list[Body] = []
    for name in ("a.txt", "b.txt"):
        upload = await bot.begin(name)
        await bot.chunk(upload, 0, name.encode())
        bodies.append({"upload_id": upload["upload_id"]})
    return bodies[0], bodies[1]


async def saved(bot: Agent) -> tuple[Body, Body]:
    for name in ("a.txt", "b.txt"):
        await bot.save(name, b"data")
    return {"session_id": "s1", "name": "a.txt"}, {"session_id": "s1", "name": "b.txt"}


async def gc(bot: Agent) -> tuple[Body, Body]:
    return {"dry_run": True}, {"dry_run": True, "grace_seconds": 0}


async def workspace_save(bot: Agent) -> tuple[Body, Body]:
    first, second = ({"workspace_id": "w1", "blobs": [{"data_base64": data}]} for data in ("MQ==", "Mg=="))
    return first, second


async def workspace_commit(bot: Agent) -> tuple[Body, Body]:
    return {"workspace_id": "w1", "files": []}, {"workspace_id": "w1", "files": [], "message": "other"}


async def workspace_delete(bot: Agent) -> tuple[Body, Body]:
    for workspace_id in ("w1", "w2"):
        await bot.ask("workspace_commit", workspace_id=workspace_id, files=[])
    return {"workspace_id": "w1"}, {"workspace_id": "w2"}


CASES = {
    "save": save,
    "begin": begin,
    "resume": sent,
    "commit": sent,
    "abort": sent,
    "delete": saved,
    "gc": gc,
    "workspace_save": workspace_save,
    "workspace_commit": workspace_commit,
    "workspace_delete": workspace_delete,
}


async def test_each_operation_that_writes_has_a_case() -> None:
    assert list(CASES) == writes_of(ARTIFACTS)


@pytest.mark.parametrize("operation", CASES)
async def test_one_id_is_one_command(bot: Agent, operation: str) -> None:
    await check_one_command(bot, operation, CASES[operation])


async def test_a_refused_commit_does_not_take_its_id(bot: Agent) -> None:
    first, second = [await bot.begin(name) for name in ("a.txt", "b.txt")]
    await bot.chunk(second, 0, b"data")
    missing = await bot.refusal("commit", upload_id=first["upload_id"], size=4, id="m1")
    assert missing.code == 40001

    assert (await bot.ask("commit", upload_id=second["upload_id"], id="m1"))["name"] == "b.txt"


async def test_a_commit_of_what_was_committed_takes_its_id(bot: Agent) -> None:
    first, second = await sent(bot)
    committed = await bot.ask("commit", first, id="m1")

    assert await bot.ask("commit", first, id="m2") == committed
    assert (await bot.refusal("commit", second, id="m2")).code == 40906
