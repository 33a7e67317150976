"""After kill -9 of a client in the middle of a snapshot or a restore, a folder is what it was, or is so again."""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import hivemem
from hivemem.workspaces import sandbox, staging
from hivemem_contracts.limits import ARTIFACT_CHUNK_BYTES as CHUNK

from .conftest import Deployment
from .folders import make, names, seen
from .hive import Agent

pytestmark = pytest.mark.asyncio(loop_scope="session")

W = "app"
LARGE = bytes(3 * CHUNK + 17)

KILLED = """
import asyncio, os, signal, sys
import hivemem
from hivemem.workspaces.staging import Staging
from hivemem.workspaces.trees import read_tree

url, tenant, action, where, path = sys.argv[1:]

def die(*arguments):
    os.kill(os.getpid(), signal.SIGKILL)

moved = 0
move_in = Staging._move_in

def strike(self, *arguments):
    global moved
    move_in(self, *arguments)
    moved += 1
    if moved == 2:
        die()

async def main():
    async with hivemem.connect(url, tenant=tenant, agent="bot") as hive:
        if action == "snapshot":
            await hive.workspaces.snapshot(path, workspace_id="app", progress=die)
        elif where == "bytes":
            await hive.workspaces.restore("app", path, progress=die)
        else:
            Staging._move_in = strike
            await hive.workspaces.restore("app", path, version=2, delete=True)

asyncio.run(main())
"""


async def killed(bot: Agent, deployment: Deployment, *words: str) -> None:
    command = [sys.executable, "-c", KILLED, deployment.settings.nats_url, bot.tenant, *words]
    done = await asyncio.to_thread(subprocess.run, command, check=False)
    assert done.returncode == -signal.SIGKILL


async def test_a_snapshot_of_a_killed_program_is_no_version_and_its_repetition_is(
    hive: hivemem.Hive, bot: Agent, deployment: Deployment, tmp_path: Path
) -> None:
    src = make(tmp_path / "src", a="1", b=LARGE)
    await killed(bot, deployment, "snapshot", "", str(src))
    with pytest.raises(hivemem.NotFound):
        await hive.workspaces.files(W)
    assert (await hive.workspaces.snapshot(src, workspace_id=W)).version == 1


async def test_a_restore_of_a_killed_program_changes_nothing_before_all_bytes_are_there(
    hive: hivemem.Hive, bot: Agent, deployment: Deployment, tmp_path: Path
) -> None:
    src = make(tmp_path / "src", a="1", b=LARGE)
    await hive.workspaces.snapshot(src, workspace_id=W)
    target = make(tmp_path / "target", a="old")
    await killed(bot, deployment, "restore", "bytes", str(target))
    assert (target / "a").read_text() == "old"
    absent = tmp_path / "absent"
    await killed(bot, deployment, "restore", "bytes", str(absent))
    assert not absent.exists()
    for root in (target, absent):
        await hive.workspaces.restore(W, root)
        assert seen(root) == seen(src)
    assert names(tmp_path) == {"src", "target", "absent"}


async def test_the_next_restore_puts_back_what_a_killed_one_moved(
    hive: hivemem.Hive, bot: Agent, deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    src = make(tmp_path / "src", a="1", b="2", c="3")
    await hive.workspaces.snapshot(src, workspace_id=W)
    before = seen(src)
    await hive.workspaces.snapshot(make(tmp_path / "next", a="one", a2="new", d="4"), workspace_id=W)
    await killed(bot, deployment, "restore", "exchange", str(src))
    assert (src / "a").read_text() == "one"
    assert not (src / "b").exists()
    with sandbox.opened_root(src) as descriptor:
        for name in staging.abandoned(descriptor):
            staging.put_back(descriptor, name)
    assert seen(src) == before
    await killed(bot, deployment, "restore", "exchange", str(src))
    done = await hive.workspaces.restore(W, src, version=1)
    assert (done.written, done.removed) == (0, 0)
    assert seen(src) == before
