"""`python -m benchmarks.windows`: appends, reads and flushes of a window, over the bus of a fleet in one process.

Appends to a session are the yardstick: they show what a request and a commit cost on this machine, now.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import nats
import orjson
from nats.aio.client import Client

from benchmarks.fleets import running_embedded
from benchmarks.timing import median, percentile, timed

TEXT: Final = "The ferry to the island leaves at seven, so we have to be at the harbour by half past six. "
LARGE: Final = 10_000
WRITERS: Final = 20
READ: Final = 200
ANSWER_SECONDS: Final = 60.0


async def main(samples: int) -> None:
    with tempfile.TemporaryDirectory() as directory, running_embedded(Path(directory) / "data") as fleet:
        client = await nats.connect(fleet.url)
        await events(client, samples)
        for policy in ("fifo", "lru", "priority"):
            await declare(client, f"full-{policy}", max_messages=READ, eviction=policy)
            await fill(client, f"full-{policy}", LARGE)
            await appends(client, f"full-{policy}", samples, f"append, {LARGE} appended before, {READ} stay, {policy}")
        await reads(client, "full-fifo", samples)
        await declare(client, "many", max_messages=READ)
        await writers(client, samples)
        await declare(client, "large", max_messages=2 * LARGE)
        await fill(client, "large", LARGE)
        await appends(client, "large", samples, f"append, {LARGE} in the window")
        for strategy in ("message_count", "hybrid_summary"):
            begun = time.perf_counter()
            answer = await ask(client, "flush", resource="large", key="k", strategy=strategy)
            took = time.perf_counter() - begun
            print(f"flush of {answer['evicted']:6} messages, {strategy:15} {took * 1_000:8.1f} ms")
            await fill(client, "large", LARGE)
        await client.close()


async def declare(client: Client, id: str, **fields: Any) -> None:
    await ask(client, "resource_put", resource={"id": id, "type": "message", "key": "k", **fields})


async def fill(client: Client, resource: str, count: int) -> None:
    some = [{"role": "user", "content": TEXT}] * 500
    for _ in range(count // 500):
        await ask(client, "append_many", resource=resource, key="k", messages=some)


async def appends(client: Client, resource: str, samples: int, name: str) -> None:
    report(name, [await timed(append, client, resource) for _ in range(samples)])


async def append(client: Client, resource: str) -> None:
    await ask(client, "append", resource=resource, key="k", message={"role": "user", "content": TEXT})


async def reads(client: Client, resource: str, samples: int) -> None:
    report(f"read of {READ}", [await timed(ask, client, "read", resource=resource, key="k") for _ in range(samples)])

    async def again() -> float:
        await append(client, resource)
        return await timed(ask, client, "read", resource=resource, key="k")

    report(f"read of {READ} after an append", [await again() for _ in range(samples)])


async def writers(client: Client, samples: int) -> None:
    taken: list[float] = []

    async def write() -> None:
        taken.extend([await timed(append, client, "many") for _ in range(samples)])

    await together(write, samples, "append, one window", taken)


async def events(client: Client, samples: int) -> None:
    session = (await ask(client, "create", "sessions", app_name="a", user_id="u"))["session_id"]
    event = {"type": "message", "content": {"text": TEXT}}
    taken: list[float] = []

    async def write() -> None:
        one = [await timed(ask, client, "append", "sessions", session_id=session, event=event) for _ in range(samples)]
        taken.extend(one)

    await write()
    report("yardstick: append to a session", taken)
    taken.clear()
    await together(write, samples, "yardstick: append to a session", taken)


async def together(write: Callable[[], Awaitable[None]], samples: int, name: str, taken: list[float]) -> None:
    """Report what many writers do, each of which adds its times to `taken`."""
    begun = time.perf_counter()
    await asyncio.gather(*(write() for _ in range(WRITERS)))
    rate = WRITERS * samples / (time.perf_counter() - begun)
    report(f"{name}, {WRITERS} writers, {rate:.0f}/s", taken)


async def ask(client: Client, operation: str, service: str = "windows", /, **body: Any) -> Any:
    subject = f"hive.req.bench.bot.{service}.{operation}"
    message = await client.request(subject, orjson.dumps(body), timeout=ANSWER_SECONDS)
    answer = orjson.loads(message.data)
    if "error" in answer:
        raise RuntimeError(message.data.decode())
    return answer


def report(name: str, samples: list[float]) -> None:
    print(f"{name:55} p50 {median(samples):7.2f} ms, p99 {percentile(samples, 99):7.2f} ms")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 500))
