"""kill -9, SIGSTOP with SIGCONT after a while, and a primary that steps down."""

import asyncio
import os
import random
from collections.abc import Callable

from hivemem_testing.process import ProcessServer, ServerFailedError

from .striker import Strike, StrikeFailed

Victim = Callable[[random.Random], ProcessServer | None]
"""Chooses a process, or None while none fits. It may block, and runs in a thread."""
Seconds = tuple[float, float]


def only(server: ProcessServer) -> Victim:
    return lambda _: server


def killing(victim: Victim, down_seconds: float, what: str = "killed") -> Strike:
    """Kill by kill -9, and start on the same data after a random time with the mean `down_seconds`."""

    async def strike(choice: random.Random) -> str:
        server = await asyncio.to_thread(victim, choice)
        if server is None:
            return ""
        if ended_by_itself(server):
            raise StrikeFailed(f"{server.name} ended by itself; its log: {server.log}")
        await asyncio.to_thread(server.kill)
        await asyncio.sleep(choice.expovariate(1 / down_seconds))
        try:
            await asyncio.to_thread(server.start)
        except ServerFailedError as error:
            await asyncio.to_thread(server.start)
            raise StrikeFailed(str(error)) from error
        return f"{server.name} {what}"

    return strike


def freezing(victim: Victim, seconds: Seconds) -> Strike:
    """Freeze a process: connections stay open, and nothing answers."""

    async def strike(choice: random.Random) -> str:
        server = await asyncio.to_thread(victim, choice)
        if server is None:
            return ""
        await asyncio.to_thread(server.pause)
        try:
            await asyncio.sleep(choice.uniform(*seconds))
        finally:
            server.resume()
        return f"{server.name} frozen"

    return strike


def stepping_down(step_down: Callable[[], str]) -> Strike:
    async def strike(choice: random.Random) -> str:
        del choice
        name = await asyncio.to_thread(step_down)
        return f"{name} stepped down" if name else ""

    return strike


def ended_by_itself(server: ProcessServer) -> bool:
    return os.waitid(os.P_PID, server.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
