"""Holds a lease in a separate process and writes on demand: `python holder_process.py URL TENANT AGENT`.

It prints `held TOKEN`, then for each line of its input the result of a write under that token.
"""

import asyncio
import sys

import hivemem

NAMESPACE = "project:rome"
TTL_SECONDS = 1.0


def say(*words: object) -> None:
    sys.stdout.write(" ".join(str(word) for word in words) + "\n")
    sys.stdout.flush()


async def main(url: str, tenant: str, agent: str) -> None:
    async with hivemem.connect(url, tenant=tenant, agent=agent) as hive:
        lease = hive.lease(NAMESPACE, ttl_seconds=TTL_SECONDS, wait_seconds=10)
        try:
            async with lease:
                claim = lease.claim
                say("held", claim.token)
                while line := await asyncio.to_thread(sys.stdin.readline):
                    try:
                        written = await hive.memory.put(namespace=NAMESPACE, key="k", value=line.strip(), lease=claim)
                        say("wrote", written.version)
                    except hivemem.HiveError as error:
                        say("refused", error.name)
        except hivemem.LeaseLost as lost:
            say("lost", lost.context["token"])


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
