"""One fleet through a series of cuts: load, copy, kill, damage, start, load, and a verification after each."""

import asyncio
import os
import signal
import time
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Final

import hivemem
from hivemem_testing.process import ProcessServer

from ...embedded.up import lives
from ..asking import TENANT, connect
from ..fleet import Fleet
from ..rest import SWEPT_SECONDS
from ..strikes.cuts import Folder, copy_files, copy_folder
from .follower import Follower
from .journal import Journal
from .kinds import LONGEST_AGE_SECONDS, Kind, Place, Plan, Victim
from .load import Load
from .verifier import Verifier

FINDINGS_SHOWN: Final = 30
LOG_LINES_SHOWN: Final = 15
_WRITES: Final = 12
"""The number of writes to acknowledge before each copy, before each cut, and after it."""
_WRITES_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.01
_GONE_SECONDS: Final = 15.0


async def run(fleet: Fleet, directory: Path, plan: Plan) -> None:
    """Run the plan; stop at the first cut that leaves a finding."""
    async with AsyncExitStack() as stack:
        client = await connect(fleet.nats_url)
        stack.push_async_callback(client.close)
        hive = await hivemem.connect(fleet.nats_url, tenant=TENANT, agent="reader")
        stack.push_async_callback(hive.close)
        journal = Journal()
        load = Load(client, journal)
        await load.prepare()
        followers = [Follower(hive, "live"), Follower(hive, "events", "event"), Follower(hive, "sleeper")]
        for follower in followers:
            stack.push_async_callback(follower.stop)
            follower.start()
        verifier = Verifier(client, hive, journal, followers)
        choice = Random(f"{plan.seed}/{plan.name}")
        cutter = Cutter(fleet.workers[0], directory, journal, load, choice)
        done: list[str] = []
        for number, kind in enumerate(plan.kinds, 1):
            last = number == len(plan.kinds)
            await _maybe_sleep(followers[-1], choice)
            done.append(f"cut {number} ({kind.name}): {await cutter.cut(kind)}")
            if last or choice.random() < 0.7:
                _wake(followers[-1])
            findings = await verifier.verify()
            if not findings and last:
                await asyncio.sleep(SWEPT_SECONDS)  # a duplicate may arrive this late
                findings = await verifier.verify()
            assert not findings, _report(findings, done, followers, plan.seed, fleet.workers[0].log)
        errors = sum(len(follower.errors) for follower in followers)
        print(f"{journal.summary()}; {errors} FeedErrors", *done, sep="\n")  # noqa: T201 - shown with -s


async def _maybe_sleep(follower: Follower, choice: Random) -> None:
    if choice.random() < 0.7:
        await follower.stop()


def _wake(follower: Follower) -> None:
    if not follower.awake:
        follower.start()


def _report(findings: list[str], done: list[str], followers: list[Follower], seed: int, log: Path) -> str:
    heard = [f"reader {follower.name} heard: {error}" for follower in followers for error in follower.errors]
    lines = log.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:]
    shown = "\n".join([*findings[:FINDINGS_SHOWN], *done, *heard, *lines])
    return f"{len(findings)} findings with HIVEMEM_TEST_SEED={seed} after {len(done)} cuts:\n{shown}"


class Cutter:
    def __init__(self, up: ProcessServer, directory: Path, journal: Journal, load: Load, choice: Random) -> None:
        self._up = up
        self._folder = Folder(directory / "up" / "data")
        self._copy = directory / "copy"
        self._journal = journal
        self._load = load
        self._choice = choice
        self._kept: set[str] = set()

    async def cut(self, kind: Kind) -> str:
        """Cut the power under load; return a description of the damage."""
        stopping = False
        writing = asyncio.create_task(self._load.run(lambda: stopping))
        try:
            await self._more_writes()
            age = self._choice.uniform(0, LONGEST_AGE_SECONDS if kind.copied else LONGEST_AGE_SECONDS / 8)
            how = await self._make_copy(kind)
            await asyncio.sleep(age)
            victim = self._choice.choice(kind.victims)
            what = await asyncio.to_thread(self._strike, kind, victim)
            await self._more_writes()
        except BaseException:
            writing.cancel()
            raise
        stopping = True
        await writing
        copied = f", {how} {age:.2f} s before" if how else ""
        return f"{what}{copied}; {victim} {'stopped' if victim == 'in order' else 'killed'}"

    async def _more_writes(self) -> None:
        wanted = self._journal.acknowledged() + _WRITES
        until = time.monotonic() + _WRITES_SECONDS
        while self._journal.acknowledged() < wanted and not self._journal.findings:
            assert time.monotonic() < until, (
                f"hardly any write is acknowledged in {_WRITES_SECONDS:.0f} s: {self._up.log}"
            )
            await asyncio.sleep(_POLL_SECONDS)

    async def _make_copy(self, kind: Kind) -> str:
        """Copy the folder of JetStream or of a ledger. A ledger is always frozen meanwhile, so the copy is whole."""
        if kind.copied is None:
            return ""
        frozen = kind.ledger is not None or self._choice.random() < 0.5
        if kind.ledger is not None:
            self._kept = self._journal.acknowledged_by(kind.ledger)
        await asyncio.to_thread(self._copy_now, kind, frozen=frozen)
        return "copied frozen" if frozen else "copied running"

    def _copy_now(self, kind: Kind, *, frozen: bool) -> None:
        server = self._server_pid()
        if frozen:
            self._up.pause()
            os.kill(server, signal.SIGSTOP)
        try:
            if kind.ledger is None:
                copy_folder(self._folder.jetstream, self._copy)
            else:
                copy_files(self._folder.ledger(kind.ledger), self._copy)
        finally:
            if frozen:
                os.kill(server, signal.SIGCONT)
                self._up.resume()

    def _strike(self, kind: Kind, victim: Victim) -> str:
        server = self._server_pid()
        if victim == "nats-server":
            self._up.pause()  # otherwise the fleet would restart the server before the damage is done
            os.kill(server, signal.SIGKILL)
        elif victim == "fleet":
            self._up.kill()
        else:
            self._up.stop()
        self._wait_until_gone(server)
        what = kind.damage(Place(self._folder, self._copy, self._choice))
        if kind.ledger is not None:
            self._journal.put_back(kind.ledger, self._kept)
        if victim == "nats-server":
            self._up.resume()
        else:
            self._up.start()
        return what

    def _server_pid(self) -> int:
        return int((self._folder.data / "nats" / "pid").read_text())

    def _wait_until_gone(self, pid: int) -> None:
        until = time.monotonic() + _GONE_SECONDS
        while lives(pid):
            assert time.monotonic() < until, f"the nats-server {pid} outlives its fleet"
            time.sleep(_POLL_SECONDS)
