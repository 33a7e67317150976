"""An agent that remembers what it is told, and keeps a log of the conversation as a file. Start the fleet with
`hivemem up`, then run this file. Set HIVEMEM_URL to use a server other than the local one.
"""

import asyncio

import hivemem
from hivemem import Runner, RunnerStep

SESSION = "memory-agent"
USER = "mia"
MESSAGES = (
    "I am allergic to nuts.",
    "On trains I like to sit at the window.",
    "What am I allergic to?",
    "Where do I like to sit?",
)


def model(step: RunnerStep, message: str) -> str:
    """Stand in for a language model, with two rules. A real one is called here, with `step.context.text` and the
    message as its prompt."""
    if not message.endswith("?"):
        return "I will remember that."
    if not step.context.memories:
        return "You have not told me yet."
    return f"You told me: {step.context.memories[0].value}"


async def main() -> None:
    async with (
        hivemem.connect(agent="assistant") as hive,
        Runner.of(hive, session_id=SESSION, app_name="examples", user_id=USER) as runner,
    ):

        @runner.step("reply", max_tokens=500, wait_ms=10_000)
        async def reply(step: RunnerStep, message: str) -> str:
            answer = model(step, message)
            if not message.endswith("?"):
                await runner.remember(message, key=message.lower().strip("."))
            return answer

        log = ""
        for message in MESSAGES:
            answer = await reply(message)
            log += f"{USER}: {message}\nassistant: {answer}\n"
            print(f"{USER}: {message}\nassistant: {answer}")
        saved = await runner.save_artifact("log.txt", log.encode(), content_type="text/plain")
        print(f"done; the log is {saved.url}")


if __name__ == "__main__":
    asyncio.run(main())
