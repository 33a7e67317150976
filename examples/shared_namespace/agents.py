"""Two agents that share a namespace: the planner sees what the scout finds at the moment it is stored. Start the fleet
with `hivemem up`, then run this file. Set HIVEMEM_URL to use a server other than the local one.
"""

import asyncio

import hivemem
from hivemem import Runner, RunnerStep

NAMESPACE = "project:naxos"
FINDINGS = {
    "ferry": "The ferry to Naxos leaves Piraeus at seven.",
    "bed": "The Albergo has two rooms in May.",
    "food": "The taverna at the port opens at noon.",
}


def model(step: RunnerStep, question: str) -> str:
    """Stand in for a language model, with one rule. A real one is called here, with `step.context.text` and the
    question as its prompt."""
    return str(step.context.memories[0].value) if step.context.memories else "Nobody knows."


def runner_of(hive: hivemem.Hive) -> Runner:
    """Return the runner of an agent: a session of its own, and the namespace that all of them share."""
    return Runner.of(hive, session_id=f"naxos-{hive.agent}", app_name="examples", user_id="team", namespace=NAMESPACE)


async def scout(hive: hivemem.Hive) -> None:
    """Find out one thing after the other."""
    async with runner_of(hive) as runner:
        for key, finding in FINDINGS.items():
            async with runner.step("explore", inputs=key) as step:
                step.output = finding
                await runner.remember(finding, key=key)


async def planner(hive: hivemem.Hive, feed: hivemem.Feed) -> None:
    """Note each finding when it arrives, and then answer a question from all of them."""
    async with runner_of(hive) as runner:
        missing = set(FINDINGS)
        async for change in feed:
            print(f"{hive.agent} hears of {change.key} from {change.actor}")
            missing.discard(change.key or "")
            if not missing:
                break

        @runner.step("plan", wait_ms=10_000)
        async def plan(step: RunnerStep, question: str) -> str:
            return model(step, question)

        print(f"{hive.agent}: {await plan('When does the boat leave?')}")


async def main() -> None:
    async with hivemem.connect(agent="scout") as scouting, hivemem.connect(agent="planner") as planning:
        # The feed is open before the scout begins, so the planner misses nothing.
        async with planning.changes(hivemem.prefix("memory", *NAMESPACE.split(":"))) as feed:
            await asyncio.gather(scout(scouting), planner(planning, feed))
        print("done")


if __name__ == "__main__":
    asyncio.run(main())
