"""`python program.py hivemem|langgraph WHERE AGENT act|resume`: an agent's program, killed and started again.

With `act`, it begins a cycle, proposes, prints `acting` and waits for its end. With `resume`, it finds the cycle that
has no result, completes it, and prints how many milliseconds it took for that after its imports, connecting included.
WHERE is the URL of the fleet, or the file of LangGraph. A program by itself: it imports what an agent would import.
"""

import asyncio
import sys
import time
from typing import Any

PROPOSAL = {"thoughts": "the ferry leaves at seven", "tool": {"name": "book", "arguments": {"ferry": "07:00"}}}
OUTPUT = {"booked": "07:00"}


async def with_hivemem(url: str, agent: str, *, resumed: bool) -> None:
    async with connect(url, agent="runner") as hive:
        if not resumed:
            await hive.agents.register(agent_id=agent)
            await hive.agents.cycle_begin(agent_id=agent)
            fields: Any = PROPOSAL
            await hive.agents.propose(agent_id=agent, number=1, **fields)
            await acting()
        standing = await hive.agents.resume(agent_id=agent)
        assert standing.cycle is not None, standing
        await hive.agents.complete(agent_id=agent, number=standing.cycle.number, outcome="success", output=OUTPUT)


async def with_langgraph(file: str, agent: str, *, resumed: bool) -> None:
    async with AsyncSqliteSaver.from_conn_string(file) as saver:
        config: Any = {"configurable": {"thread_id": agent, "checkpoint_ns": ""}}

        async def put(step: int, cycle: dict[str, Any]) -> Any:
            checkpoint = {**empty_checkpoint(), "channel_values": {"cycle": cycle}, "channel_versions": {"cycle": step}}
            return await saver.aput(config, checkpoint, {"source": "loop", "step": step}, {"cycle": step})

        if not resumed:
            config = await put(1, {"number": 1, "status": "begun"})
            config = await put(2, {"number": 1, "status": "proposed", "proposal": PROPOSAL})
            await acting()
        standing = await saver.aget_tuple(config)
        assert standing is not None
        config, cycle = standing.config, standing.checkpoint["channel_values"]["cycle"]
        await put(3, {**cycle, "status": "completed", "output": OUTPUT})


async def acting() -> None:
    print("acting", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    kind, where, agent, step = sys.argv[1:]
    if kind == "langgraph":
        from langgraph.checkpoint.base import empty_checkpoint
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

        program = with_langgraph
    else:
        from hivemem import connect

        program = with_hivemem
    started = time.perf_counter()
    asyncio.run(program(where, agent, resumed=step == "resume"))
    print((time.perf_counter() - started) * 1_000, flush=True)
