"""Two agents of a support team share one window, live: what one says, the other reads before its next answer.

Start the fleet with `hivemem up`, then run this file. Set HIVEMEM_URL to use a server other than the local one.
"""

import asyncio
import sys
from pathlib import Path
from typing import Any

import hivemem
from hivemem.window_files import apply_resources, read_resources

DECLARED = Path(__file__).parent.parent / "memories" / "customer-support.yaml"


def support_model(messages: list[dict[str, Any]]) -> str:
    """Stand in for a model: `await client.chat.completions.create(model=…, messages=messages)`."""
    if any("refund" in str(message["content"]) for message in messages):
        return "Billing has refunded 12 EUR. You get a mail about it today."
    return "I am sorry about that. @billing, was the invoice charged twice?"


def billing_model(messages: list[dict[str, Any]]) -> str:
    """Stand in for the model of the other agent, which may be of another provider."""
    charged = sum("charged twice" in str(message["content"]) for message in messages)
    return f"It was charged twice, as {charged} messages say: refund of 12 EUR is on its way."


async def support(hive: hivemem.Hive, customer: str, question: str) -> str:
    """Answer the customer."""
    window = hive.window("customer-support", user_id=customer)
    async with window.turn(question) as turn:
        # The reply of OpenAI, Anthropic or Gemini goes into `answer` as it is; a text does, too.
        return turn.answer(support_model(turn.messages(format="openai"))).text


async def billing(hive: hivemem.Hive, customer: str, ready: asyncio.Event) -> None:
    """Wait until somebody asks for billing in the customer's window, and answer once."""
    window = hive.window("customer-support", user_id=customer)
    async with hive.changes("window.customer-support") as feed:
        ready.set()
        async for change in feed:
            if change.actor == hive.agent or not str(change.key).startswith(f"user:{customer}:"):
                continue
            async with window.turn() as turn:
                messages = turn.messages(format="openai")
                if messages and "@billing" in str(messages[-1]["content"]):
                    print("billing:", turn.answer(billing_model(messages)).text)
                    return


async def main() -> None:
    customer = sys.argv[1] if len(sys.argv) > 1 else hivemem.new_id()
    async with hivemem.connect(agent="support") as one, hivemem.connect(agent="billing") as other:
        async for applied in apply_resources(one, read_resources([DECLARED])):
            print(f"{applied.id} is declared")

        ready = asyncio.Event()
        waiting = asyncio.create_task(billing(other, customer, ready))
        await ready.wait()
        async with one.changes("window.customer-support") as feed:
            print("customer: My invoice was charged twice.")
            print("support:", await support(one, customer, "My invoice was charged twice."))
            await waiting
            # The answer of billing is a durable command, which a worker applies a moment later.
            async for change in feed:
                if change.actor == other.agent:
                    break

        print("customer: What now?")
        print("support:", await support(one, customer, "What now?"))
        print("done")


if __name__ == "__main__":
    asyncio.run(main())
