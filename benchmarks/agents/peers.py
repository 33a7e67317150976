"""LangGraph's AsyncSqliteSaver on a file of its own, with its defaults: a checkpoint for each step of a cycle."""

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from benchmarks.agents.step import proposal, result


class LangGraphContender:
    """A checkpointer in the measuring process, with the advantage that it needs no bus. A thread is an agent; its state
    is the newest cycle, as it would be in a graph with one channel."""

    name = "langgraph"

    def __init__(self, saver: AsyncSqliteSaver, stack: AsyncExitStack) -> None:
        self._saver = saver
        self._stack = stack
        self._newest: dict[str, Any] = {}

    @classmethod
    async def open(cls, file: Path) -> "LangGraphContender":
        stack = AsyncExitStack()
        saver = await stack.enter_async_context(AsyncSqliteSaver.from_conn_string(str(file)))
        await saver.setup()
        return cls(saver, stack)

    async def register(self, agent: str) -> None:
        self._newest[agent] = {"configurable": {"thread_id": agent, "checkpoint_ns": ""}}

    async def begin(self, agent: str, number: int) -> None:
        await self._put(agent, 3 * number, {"number": number, "status": "begun"})

    async def propose(self, agent: str, number: int) -> None:
        proposed = {"number": number, "status": "proposed", "proposal": proposal(number)}
        await self._put(agent, 3 * number + 1, proposed)

    async def complete(self, agent: str, number: int) -> None:
        cycle = {"number": number, "status": "completed", "proposal": proposal(number), "result": result(number)}
        await self._put(agent, 3 * number + 2, cycle)

    async def close(self) -> None:
        await self._stack.aclose()

    async def _put(self, agent: str, step: int, cycle: dict[str, Any]) -> None:
        versions = {"cycle": step}
        checkpoint = {**empty_checkpoint(), "channel_values": {"cycle": cycle}, "channel_versions": versions}
        metadata: Any = {"source": "loop", "step": step}
        self._newest[agent] = await self._saver.aput(self._newest[agent], checkpoint, metadata, versions)
