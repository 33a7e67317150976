"""An assistant that stores notes and finds them again by meaning. Start the fleet with `hivemem up`,
then run this file. Set HIVEMEM_URL to use a server other than the local one.
"""

import asyncio

import hivemem

NOTES = {
    "seat": ("On trains Olivia sits at the window, because the aisle makes her nervous.", 0.3),
    "meal": ("No nuts for Olivia: she is allergic to them.", 1.0),
    "pet": ("Her cat is called Biscuit and sleeps on the keyboard.", 0.1),
    "work": ("She leads the team that keeps the payment system running.", 0.6),
    "error": ("The ticket machine says ERR-4312 when the card reader is wet.", 0.2),
}
QUESTIONS = (
    "what must not be in the food",
    "where would she like to be seated",
    "animals at home",
    "ERR-4312",
)


async def remember(hive: hivemem.Hive) -> None:
    """Put the notes. A put does not wait for the embedding: it returns when the memory is on disk."""
    await hive.memory.put_batch(
        puts=[
            hivemem.PutMemory(namespace="user:olivia", key=key, value={"text": text}, importance=importance)
            for key, (text, importance) in NOTES.items()
        ]
    )
    print(f"{len(NOTES)} memories are on disk")


async def ask(hive: hivemem.Hive, question: str) -> None:
    # Read-your-writes: wait until all acknowledged memories are indexed, at most ten seconds.
    answer = await hive.recall(question, namespace_prefix="user:olivia", limit=2, wait_ms=10_000)
    print(f"{question}?")
    for item in answer.items:
        print(f"  {item.score:.2f} (meaning {item.scores.dense:.2f}, words {item.scores.keyword:.2f}) {item.text}")
    if answer.degraded is not None:
        print(f"  degraded: {answer.degraded.detail}")


async def main() -> None:
    async with hivemem.connect(agent="assistant") as hive:
        await remember(hive)
        for question in QUESTIONS:
            await ask(hive, question)

        # Memories for a prompt: the best ones that fit into the budget, with extra weight for importance.
        weights = hivemem.Weights(relevance=1.0, importance=0.5)
        answer = await hive.recall("planning a dinner", namespace_prefix="user:olivia", weights=weights, max_tokens=40)
        print("for the prompt:", " ".join(item.text or "" for item in answer.items))

        # Recall finds the newest version only.
        await hive.memory.put(namespace="user:olivia", key="seat", value="Olivia has come to like the aisle.")
        await ask(hive, "where would she like to be seated")
        print("done")


if __name__ == "__main__":
    asyncio.run(main())
