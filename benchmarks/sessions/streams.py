"""Reads the streams of a fleet: waiting commands, announced changes, and their commit times."""

import asyncio
import time
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import orjson
from nats.aio.client import Client
from nats.aio.msg import Msg

from benchmarks.sessions.event import AGENT, TENANT, append_body
from hivemem_contracts.identifiers import new_id
from hivemem_contracts.streams import CHANGES, DEAD, INGEST, MESSAGE_ID
from hivemem_contracts.subjects import command_subject
from hivemem_runtime.bus.jetstream import ask
from hivemem_runtime.bus.subscriptions import subscribe

POLL_SECONDS: Final = 0.1
DRAIN_SECONDS: Final = 120.0
UNACKNOWLEDGED: Final = 2_000


@dataclass(frozen=True)
class Moment:
    """The commit time of a change and its time on the feed, in seconds since 1970."""

    committed: float
    announced: float


async def stored(client: Client, stream: str) -> dict[str, Any]:
    state: dict[str, Any] = (await ask(client, f"STREAM.INFO.{stream}"))["state"]
    return state


async def last_change(client: Client) -> int:
    return int((await stored(client, CHANGES))["last_seq"])


async def moment_of(client: Client, sequence: int) -> Moment:
    """Read the commit time of a change, and its time on the feed."""
    subject = f"$JS.API.DIRECT.GET.{CHANGES}"
    message = await client.request(subject, orjson.dumps({"seq": sequence}))
    announced = (message.headers or {})["Nats-Time-Stamp"]
    committed: str = orjson.loads(message.data)["at"]
    # The server counts nanoseconds, which Python does not read.
    whole, _, part = announced.rstrip("Z").partition(".")
    return Moment(
        datetime.fromisoformat(committed).timestamp(), datetime.fromisoformat(f"{whole}.{part[:6]:0<6}Z").timestamp()
    )


async def drained(client: Client, announced_before: int, commands: int) -> None:
    """Return when no command waits and every one is announced. Raises when that takes too long or one failed."""
    deadline = time.monotonic() + DRAIN_SECONDS
    dead_before = (await stored(client, DEAD))["messages"]
    seen = -1
    while True:
        waiting = (await stored(client, INGEST))["messages"]
        announced = await last_change(client) - announced_before
        # Sessions announce more than their events, so reaching the count is not the end: it must stop growing.
        if not waiting and announced >= commands and announced == seen:
            break
        seen = announced
        if time.monotonic() > deadline:
            raise TimeoutError(f"{waiting} commands wait after {DRAIN_SECONDS:.0f} s, {announced} were announced")
        await asyncio.sleep(POLL_SECONDS)
    if (await stored(client, DEAD))["messages"] != dead_before:
        raise RuntimeError("commands went to the dead letters")


async def publish_backlog(client: Client, sessions: list[str], count: int) -> None:
    """Publish commands with plain NATS, at full speed; each one is acknowledged before this returns."""
    subjects = [command_subject(TENANT, AGENT, "sessions", "append", session) for session in sessions]
    inbox = client.new_inbox()
    acknowledged = 0
    failures: list[bytes] = []
    heard = asyncio.Event()

    async def receive(message: Msg) -> None:
        nonlocal acknowledged
        acknowledged += 1
        if b'"error"' in message.data:
            failures.append(message.data)
        heard.set()

    subscription = await subscribe(client, inbox, receive, unlimited=True)
    for number in range(count):
        place = number % len(sessions)
        body = orjson.dumps(append_body(sessions[place], number))
        await client.publish(subjects[place], body, reply=inbox, headers={MESSAGE_ID: new_id()})
        while number + 1 - acknowledged >= UNACKNOWLEDGED:
            heard.clear()
            await heard.wait()
    while acknowledged < count and not failures:
        heard.clear()
        await asyncio.wait_for(heard.wait(), DRAIN_SECONDS)
    await subscription.unsubscribe()
    if failures:
        raise RuntimeError(failures[0].decode())
