"""`python -m benchmarks.sessions.subscriber URL SESSION COUNT`: a process that only listens to the feed of one session.

It prints `ready`, and after COUNT events the delay of each after its commit, in milliseconds. Both times come from this
machine's clock.
"""

import asyncio
import json
import sys
import time

import hivemem
from benchmarks.sessions.event import TENANT
from hivemem_contracts.identifiers import microseconds_from_time


async def listen(url: str, session: str, count: int) -> list[float]:
    late: list[float] = []
    async with (
        hivemem.connect(url, tenant=TENANT, agent="subscriber") as hive,
        hive.changes(hivemem.prefix("event", session)) as feed,
    ):
        print("ready", flush=True)
        async for change in feed:
            late.append(time.time_ns() / 1_000_000 - microseconds_from_time(change.at) / 1_000)
            if len(late) == count:
                break
    return late


if __name__ == "__main__":
    print(json.dumps(asyncio.run(listen(sys.argv[1], sys.argv[2], int(sys.argv[3])))))
