"""`python -m benchmarks.bystander`: the latency of one tenant while another one sends odd messages.

The other tenant's valid messages are the yardstick: they show how much of the latency is the load, and how much is the
oddness of the messages. The loads take turns in one run.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import count, cycle
from pathlib import Path
from typing import Final

import nats
import orjson
from nats.aio.client import Client
from nats.aio.msg import Msg

from benchmarks.fleets import running_embedded
from benchmarks.timing import median, percentile, timed
from tests.fuzz.bodies import Known
from tests.fuzz.cases import Case, Cases

ROUNDS: Final = 3
PAUSE_SECONDS: Final = 0.005
ANSWER_SECONDS: Final = 30.0
SEED: Final = 1
MADE: Final = 4_000
CHUNK_SUBJECT: Final = "hive.req.fuzz.bot.artifacts.chunk.none.none"
LOADS: Final = (
    ("alone", 0, False),
    ("valid, 1 at a time", 1, False),
    ("odd, 1 at a time", 1, True),
    ("valid, 16 at a time", 16, False),
    ("odd, 16 at a time", 16, True),
)


async def main(seconds: float) -> None:
    with tempfile.TemporaryDirectory() as directory, running_embedded(Path(directory) / "data") as fleet:
        client = await nats.connect(fleet.url)
        made = Cases(SEED, Known(cursors={"sessions.list": ["none"]}, chunk_subjects=[CHUNK_SUBJECT]))
        cases = [case for number in range(MADE) if not (case := made[number]).durable]
        kinds = {False: [case for case in cases if case.kind == "valid"], True: cases}
        taken: dict[str, list[float]] = {name: [] for name, _, _ in LOADS}
        sent: dict[str, int] = dict.fromkeys(taken, 0)
        for _ in range(ROUNDS):
            for name, under_way, odd in LOADS:
                async with sending(fleet.url, kinds[odd], under_way) as numbers:
                    taken[name] += await latencies(client, seconds)
                    sent[name] += next(numbers)
        for name, samples in taken.items():
            figures = f"p50 {median(samples):6.2f} ms, p99 {percentile(samples, 99):7.2f} ms"
            yardstick = name.replace("odd", "valid") if name != "alone" else name
            ratio = median(samples) / median(taken[yardstick])
            print(
                f"{name:20} {figures}, p50 {ratio:4.2f} times {yardstick}; {sent[name]:6} messages of the other tenant"
            )
        await client.close()


@asynccontextmanager
async def sending(url: str, cases: list[Case], under_way: int) -> AsyncGenerator["count[int]"]:
    """Send cases again and again, `under_way` at a time, and yield a counter of them."""
    client, numbers, rest = await nats.connect(url), count(), cycle(cases)
    stopping = asyncio.Event()

    async def send() -> None:
        while not stopping.is_set():
            next(numbers)
            case = next(rest)
            headers = None if not case.headers else {"Hive-Msg-Id": f"h{case.number}"}
            try:
                await client.request(case.subject.decode(), case.body, timeout=ANSWER_SECONDS, headers=headers)
            except (nats.errors.Error, UnicodeDecodeError, ValueError):
                await asyncio.sleep(PAUSE_SECONDS)

    tasks = [asyncio.create_task(send()) for _ in range(under_way)]
    try:
        yield numbers
    finally:
        stopping.set()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await client.close()


async def latencies(client: Client, seconds: float) -> list[float]:
    """Return the times of appends and gets of the bystander, one after the other, in milliseconds."""
    session = orjson.loads((await ask(client, "create", {"app_name": "a", "user_id": "u"})).data)["session_id"]
    samples: list[float] = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        samples.append(await timed(ask, client, "append", {"session_id": session, "event": {"type": "message"}}))
        samples.append(await timed(ask, client, "get", {"session_id": session}))
        await asyncio.sleep(PAUSE_SECONDS)
    return samples


async def ask(client: Client, operation: str, body: dict[str, object]) -> Msg:
    subject = f"hive.req.bystander.bot.sessions.{operation}"
    return await client.request(subject, orjson.dumps(body), timeout=ANSWER_SECONDS)


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1]) if len(sys.argv) > 1 else 5.0))
