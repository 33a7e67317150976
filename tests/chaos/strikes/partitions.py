"""Cuts of the network between processes, each for a while."""

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from hivemem_testing.process import ProcessServer

from .network import HOWS, Cut, Ends, Network
from .striker import Strike

_CUT_SECONDS: Final = (0.2, 6.0)
"""Durations of cuts; the longest exceeds an election, and the time a worker keeps its partitions."""


class Sides(NamedTuple):
    name: str
    ends: Ends


def partition(network: Network, sides: Callable[[random.Random], Sides | None]) -> Strike:
    """Cut the network between two sides. `sides` may block, and runs in a thread."""

    async def strike(choice: random.Random) -> str:
        found = await asyncio.to_thread(sides, choice)
        if found is None:
            return ""
        how = choice.choice(HOWS)
        cut = Cut(how, found.ends)
        with network.cut(cut, reset_at_end=choice.random() < 0.5):
            await asyncio.sleep(choice.uniform(*_CUT_SECONDS))
        return f"{found.name} {how}" if cut.connections else ""

    return strike


def between(source: str, target: str) -> Callable[[random.Random], Sides]:
    """Choose the connections that one process makes to another."""

    def ends(a: str, b: str) -> bool:
        return (a, b) == (source, target)

    return lambda _: Sides(f"{source} to {target}", ends)


def cut_off(
    victim: Callable[[random.Random], ProcessServer | None], peers: Sequence[str]
) -> Callable[[random.Random], Sides | None]:
    """Cut a member off from its peers, while clients still reach it, or, as often, from everybody."""

    def sides(choice: random.Random) -> Sides | None:
        server = victim(choice)
        alone = choice.random() < 0.5
        if server is None:
            return None
        name = server.name

        def ends(source: str, target: str) -> bool:
            others = {source, target} - {name}
            return name in (source, target) and len(others) == 1 and (alone or others <= set(peers))

        return Sides(f"{name} from {'all' if alone else 'peers'}", ends)

    return sides
