"""Hivemem in half a minute: `make demo`. It needs no model key and no network, and leaves nothing behind.

It runs a fleet of its own in a temporary folder, kills it in the middle of the work with `kill -9`, and shows that
everything that was acknowledged is still there.
"""

import asyncio
import re
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path

import hivemem

SESSION = "trip-1"
REPORT = "Day 1: Rome. Day 2: the ferry to Naxos.\n" * 2_000
WRITERS = 4
SECONDS_UNTIL_THE_KILL = 1.5
PATIENCE_SECONDS = 30


class Fleet:
    """`hivemem up`, as a process that can be killed."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._process: asyncio.subprocess.Process | None = None
        self.port = 0
        self.url = ""

    async def start(self) -> None:
        """Start it on the same port as before, and return once it is ready."""
        words = ["up", "--data", str(self._data), "--nats-port", str(self.port), "--http-port", "0"]
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "hivemem", *words, stdout=asyncio.subprocess.PIPE
        )
        assert self._process.stdout is not None
        line = (await self._process.stdout.readline()).decode()
        found = re.search(r"nats=(nats://[\d.]+:(\d+))", line)
        if found is None:
            raise SystemExit("the fleet does not start; `hivemem up` says why")
        self.url, self.port = found[1], int(found[2])

    async def end(self, signal_number: int) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(signal_number)
            await self._process.wait()


@asynccontextmanager
async def running_fleet() -> AsyncGenerator[Fleet]:
    with tempfile.TemporaryDirectory(prefix="hivemem-demo-", ignore_cleanup_errors=True) as folder:
        fleet = Fleet(Path(folder))
        try:
            await fleet.start()
            yield fleet
        finally:
            await fleet.end(signal.SIGTERM)


def section(title: str) -> None:
    print(f"\n{title}")


def say(text: str) -> None:
    print(f"  {text}")


async def follow(hive: hivemem.Hive) -> Counter[str]:
    """Count every change, as any program may follow them live. The reader outlives the kill, and misses nothing."""
    counts: Counter[str] = Counter()
    async for change in hive.changes(since="start"):
        counts[f"{change.entity}.{change.operation}"] += 1
        if change.entity == "cycle" and change.operation == "completed":
            break
    return counts


async def work(hive: hivemem.Hive) -> None:
    """Do what an agent does: talk, remember, save a file, and propose its next step."""
    section("An agent writes a session, its state, two memories and a file")
    await hive.sessions.create(session_id=SESSION, app_name="travel", user_id="alice")
    appended = await hive.sessions.append(
        session_id=SESSION,
        event=hivemem.NewEvent(type="message", content="Plan five days in Greece, please."),
        state_delta={"goal": "Greece", "user:language": "en"},
    )
    say(f"event {appended.sequence} and its state are one step: revision {appended.revision}")
    await hive.memory.put(namespace="user:alice", key="seat", value="Alice gets seasick unless she sits in the middle.")
    await hive.memory.put(namespace="user:alice", key="food", value="She eats no meat and no fish.")
    saved = await hive.artifacts.upload(SESSION, "plan.txt", REPORT.encode())
    say(f"file {saved.url} has {saved.size:,} bytes")
    await hive.agents.register(agent_id="planner", directives="Plan the trip.")
    await hive.agents.cycle_begin(agent_id="planner", session_id=SESSION)
    await hive.agents.propose(
        agent_id="planner", number=1, tool=hivemem.Tool(name="book", arguments={"ferry": "07:00"})
    )
    say("agent planner proposed to book the ferry, in its cycle 1")


async def recall(hive: hivemem.Hive) -> None:
    section("Another agent asks in other words")
    question = "where should she be placed on the boat?"
    found = await hive.recall(question, namespace_prefix="user:alice", wait_ms=10_000)
    say(f"{question} -> {found.items[0].value}")


async def write_until_killed(hive: hivemem.Hive, acknowledged: list[str], stop: asyncio.Event) -> None:
    """Append events, and note the acknowledged ones. The client repeats what got no answer under the same id."""
    while not stop.is_set():
        id = hivemem.new_id()
        event = hivemem.NewEvent(event_id=id, type="thought", content="going on")
        await hive.sessions.append(session_id=SESSION, event=event)
        acknowledged.append(id)


async def survive(hive: hivemem.Hive, fleet: Fleet) -> list[str]:
    """Kill the whole fleet while agents write, start it again, and return the acknowledged ids."""
    section("kill -9 of everything while four agents write")
    acknowledged: list[str] = []
    stop = asyncio.Event()
    writers = [asyncio.create_task(write_until_killed(hive, acknowledged, stop)) for _ in range(WRITERS)]
    await asyncio.sleep(SECONDS_UNTIL_THE_KILL)
    before = len(acknowledged)
    await fleet.end(signal.SIGKILL)
    began = time.monotonic()
    await fleet.start()
    await hive.sessions.get(session_id=SESSION)
    say(f"{before} events were acknowledged; the fleet answers again after {time.monotonic() - began:.1f} s")
    stop.set()
    await asyncio.gather(*writers)
    return acknowledged


async def check(hive: hivemem.Hive, acknowledged: list[str]) -> None:
    """Compare the session with what was acknowledged, and go on where the agent stood."""
    section("What is there afterwards")
    stored: list[str] = []
    cursor: str | None = None
    while True:
        page = await hive.sessions.events(session_id=SESSION, type="thought", limit=500, cursor=cursor)
        stored += [event.event_id for event in page.items]
        cursor = page.cursor
        if cursor is None:
            break
    lost, twice = len(set(acknowledged) - set(stored)), len(stored) - len(set(stored))
    say(f"{len(acknowledged)} events acknowledged, {lost} lost, {twice} applied twice")
    session = (await hive.sessions.get(session_id=SESSION)).session
    say(f"the session's goal is still {session.state['goal']}, at revision {session.revision}")
    data = await hive.artifacts.read(f"hive://default/{SESSION}/plan.txt")
    same = sha256(data).hexdigest() == sha256(REPORT.encode()).hexdigest()
    say(f"the file, by its URL: {len(data):,} bytes, {'the same ones' if same else 'DAMAGED'}")
    standing = await hive.agents.resume(agent_id="planner")
    say(f"agent planner goes on in cycle {standing.agent.open_cycle} with the step {standing.step!r}")
    await hive.agents.complete(agent_id="planner", number=1, outcome="success", output={"booked": "07:00"})
    if lost or twice or not same:
        raise SystemExit("the demo found a fault")


async def main() -> None:
    began = time.monotonic()
    async with running_fleet() as fleet:
        say(f"a fleet runs at {fleet.url}: NATS, SQLite, an index and files, in one process")
        async with (
            hivemem.connect(fleet.url, agent="planner", timeout_seconds=60) as hive,
            hivemem.connect(fleet.url, agent="auditor", timeout_seconds=60) as auditor,
        ):
            follower = asyncio.create_task(follow(auditor))
            await work(hive)
            await recall(auditor)
            acknowledged = await survive(hive, fleet)
            await check(hive, acknowledged)
            section("Meanwhile, another program followed the feed live, through the kill")
            counts = await asyncio.wait_for(follower, PATIENCE_SECONDS)
            say(", ".join(f"{what} {count}" for what, count in counts.items()))
            if counts["event.appended"] != len(acknowledged) + 1:
                raise SystemExit("the demo found a fault")
    print(f"\ndone in {time.monotonic() - began:.0f} s; start your own fleet with `make up`")


if __name__ == "__main__":
    asyncio.run(main())
