"""`python -m benchmarks.window_tokens`: a plot of the tokens in a window while a conversation grows, by strategy.

It runs in the environment of the benchmarks (`make bench ARGS=--help` makes it), and draws into docs/benchmarks.
"""

# matplotlib leaves the options of its methods untyped.
# pyright: reportUnknownMemberType=false

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import matplotlib as mpl
from matplotlib.figure import Figure

import hivemem
from benchmarks.fleets import running_embedded
from benchmarks.plotting import COLOURS, STYLE
from hivemem_contracts.windows.models import Flushing, WindowResource

DIRECTORY: Final = Path(__file__).parents[1] / "docs" / "benchmarks"
LIMIT: Final = 2_000
MESSAGES: Final = 160
SENTENCE: Final = "The ferry to the island leaves at seven, so we have to be at the harbour by half past six. "
STRATEGIES: Final[Mapping[str, Flushing | None]] = {
    "no flushing: the oldest message leaves": None,
    "token_threshold": Flushing(strategy="token_threshold", threshold=0.8),
    "message_count, every 40": Flushing(strategy="message_count", every_messages=40, keep_last=4),
    "hybrid_summary": Flushing(strategy="hybrid_summary", threshold=0.8, keep_last=8),
}
"""fifo, lru, lfu and priority flush as many tokens as token_threshold, and model_summary as many as hybrid_summary."""


async def measure(hive: hivemem.Hive) -> dict[str, list[int]]:
    """Return the tokens after each append. A flush that is due ends before the next append."""
    found: dict[str, list[int]] = {}
    for place, (name, flushing) in enumerate(STRATEGIES.items()):
        resource = WindowResource(id=f"s{place}", type="token", key="k", max_tokens=LIMIT, flushing=flushing)
        await hive.windows.resource_put(resource=resource)
        window = hive.window(resource.id)
        found[name] = []
        async with hive.changes(f"window.{resource.id}") as feed:
            for number in range(MESSAGES):
                role = "assistant" if number % 2 else "user"
                content = SENTENCE * (1 + number * number % 7 % 4)
                told = await window.append({"role": role, "content": content})
                found[name].append(told.total_tokens)
                while told.flush == "queued" and (await anext(feed)).operation != "flushed":
                    pass
    return found


def draw(found: Mapping[str, Sequence[int]]) -> None:
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7.2, 3.4), layout="constrained")
        axes = figure.add_subplot(1, 1, 1)
        for colour, (name, tokens) in zip(COLOURS, found.items(), strict=False):
            axes.plot(range(1, len(tokens) + 1), tokens, color=colour, label=name)
        axes.axhline(LIMIT, color="#8a8a8a", linestyle="--", linewidth=1)
        axes.annotate("max_tokens", (1, LIMIT), xytext=(0, 3), textcoords="offset points", color="#8a8a8a")
        axes.set_xlabel("messages appended")
        axes.set_ylabel("tokens in the window")
        axes.set_ylim(0, LIMIT * 1.1)
        axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
        figure.savefig(DIRECTORY / "window-tokens.png", dpi=144)
        figure.savefig(DIRECTORY / "window-tokens.svg", metadata={"Date": None})


async def main() -> None:
    with tempfile.TemporaryDirectory() as directory, running_embedded(Path(directory) / "data") as fleet:
        async with hivemem.connect(fleet.url, agent="plotter") as hive:
            found = await measure(hive)
    for name, tokens in found.items():
        print(f"{name:40} at most {max(tokens):5,}, {sum(tokens) / len(tokens):7,.0f} on average")
    draw(found)


if __name__ == "__main__":
    asyncio.run(main())
