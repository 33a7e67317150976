"""The load: programs that run an agent each, ask where it stands before every step, and record what they saw."""

import asyncio
from collections.abc import Sequence
from typing import Final

from nats.aio.client import Client

from ..asking import Asking, Refused
from ..journal import Journal, Sent
from ..service import Stopping

AGENTS: Final = 8
_CYCLES_BETWEEN_RECORDS: Final = 3


async def run_agents(clients: Sequence[Client], journal: Journal, stopping: Stopping) -> None:
    runners = [_Runner(Asking(clients[number % len(clients)], "agents"), journal, number) for number in range(AGENTS)]
    await asyncio.gather(*(runner.run(stopping) for runner in runners))


def output_of(agent_id: str, number: int) -> str:
    return f"{agent_id}, cycle {number}"


class _Runner:
    """A program that keeps nothing: each step begins like a start after a crash."""

    def __init__(self, asking: Asking, journal: Journal, number: int) -> None:
        self._asking = asking
        self._journal = journal
        self._agent_id = f"agent-{number}"

    async def run(self, stopping: Stopping) -> None:
        try:
            await self._write("register", 0)
            while not stopping():
                await self._step()
        except Refused as refused:
            self._journal.findings.append(f"{self._agent_id}: refused: {refused}")

    async def _step(self) -> None:
        standing = await self._asking.request("resume", {"agent_id": self._agent_id})
        number = standing["agent"]["cycles"]
        match standing["step"]:
            case "begin":
                if number % _CYCLES_BETWEEN_RECORDS == 1:
                    content = output_of(self._agent_id, number)
                    await self._write("record", number, number=number, kind="observation", content=content)
                await self._write("cycle_begin", number + 1)
            case "propose":
                await self._write("propose", number, number=number, plan="go on")
            case _:
                output = output_of(self._agent_id, number)
                await self._write("complete", number, number=number, outcome="success", output=output)

    async def _write(self, operation: str, place: int, /, **fields: object) -> None:
        """Send a write under an id of its step, as any program can that was started again."""
        id = f"{self._agent_id}-{operation}-{place}"
        sent = Sent(id, operation, self._agent_id, self._agent_id, place, {"agent_id": self._agent_id, **fields})
        self._journal.sent.append(sent)
        sent.answer = await self._asking.request(operation, sent.body, id)
