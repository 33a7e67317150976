"""The most telling tests, on every pair of stores."""

import asyncio
import os
from hashlib import sha256
from pathlib import Path

import pytest

import hivemem

from .conftest import Deployment
from .hive import Agent

pytestmark = pytest.mark.asyncio(loop_scope="session")

LARGE = os.urandom(3_000_000)


async def test_a_large_file_goes_there_and_back(hive: hivemem.Hive, tmp_path: Path) -> None:
    artifact = await hive.artifacts.upload("s1", "a.bin", LARGE)
    assert artifact.sha256 == sha256(LARGE).hexdigest()
    assert await hive.artifacts.download(artifact.url, to=tmp_path / "a.bin") == artifact
    assert (tmp_path / "a.bin").read_bytes() == LARGE


async def test_savers_of_one_name_make_one_version_each(bot: Agent) -> None:
    saved = await asyncio.gather(*(bot.save("a", f"{n % 5}".encode()) for n in range(30)))
    assert sorted(each["version"] for each in saved) == list(range(1, 31))


async def test_bytes_are_stored_once_and_collected_with_their_last_use(bot: Agent, deployment: Deployment) -> None:
    for name in ("a", "b"):
        await bot.save(name, b"the same")
    assert len([each async for each in deployment.store.blobs() if each.tenant == bot.tenant]) == 1
    for name, left in (("a", 1), ("b", 0)):
        await bot.ask("delete", session_id="s1", name=name)
        await bot.ask("gc", grace_seconds=0)
        assert len([each async for each in deployment.store.blobs() if each.tenant == bot.tenant]) == left
    assert await bot.pages("list") == []
    assert await bot.told("artifact.>") == [
        ("artifact.saved", 1),
        ("artifact.saved", 1),
        ("artifact.deleted", 2),
        ("artifact.deleted", 2),
    ]
