"""The contenders of the suite, set up once for the whole run, on one disk."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.fleets import Fleet, Store, running_embedded, running_fleet
from benchmarks.memory.contenders import Contender, HivememContender, PlainNatsContender
from benchmarks.memory.peers import LangGraphContender
from benchmarks.memory.sizes import FULL, QUICK, Sizes
from benchmarks.results import Results


@dataclass(frozen=True)
class Lab:
    """The contenders: `hivemem` uses the library, `plain` a plain NATS client, each by store; `embedded` is `hivemem
    up`."""

    sizes: Sizes
    results: Results
    fleets: dict[Store, Fleet]
    hivemem: dict[Store, HivememContender]
    plain: dict[Store, PlainNatsContender]
    embedded: HivememContender
    peer: LangGraphContender

    @property
    def everybody(self) -> list[Contender]:
        return [*self.hivemem.values(), *self.plain.values(), self.embedded, self.peer]

    @property
    def libraries(self) -> list[Contender]:
        """Return the usual contenders, without the plain clients."""
        return [*self.hivemem.values(), self.peer]

    @property
    def fastest_ways(self) -> list[Contender]:
        """Return the contenders that fill the stores, with the cheapest client."""
        return [*self.plain.values(), self.peer]


@asynccontextmanager
async def open_lab(directory: Path, stores: Sequence[Store], results: Results) -> AsyncGenerator[Lab]:
    sizes = QUICK if results.quick else FULL
    async with AsyncExitStack() as stack:
        fleets: dict[Store, Fleet] = {}
        hivemem: dict[Store, HivememContender] = {}
        plain: dict[Store, PlainNatsContender] = {}
        for store in stores:
            fleets[store] = stack.enter_context(running_fleet(directory / store, store, "memory"))
            hivemem[store] = await HivememContender.connect(store, fleets[store].url)
            plain[store] = await PlainNatsContender.connect(f"{store}-plain", fleets[store].url)
        up = await HivememContender.connect("up", stack.enter_context(running_embedded(directory / "up")).url)
        lab = Lab(sizes, results, fleets, hivemem, plain, up, await LangGraphContender.open(directory))
        for contender in lab.everybody:
            stack.push_async_callback(contender.close)
        yield lab
