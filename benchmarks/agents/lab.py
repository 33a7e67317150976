"""The contenders of the suite, set up once for the whole run, on one disk."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.agents.contenders import Contender, HivememContender, PlainNatsContender
from benchmarks.agents.peers import LangGraphContender
from benchmarks.agents.sizes import FULL, QUICK, Sizes
from benchmarks.fleets import Fleet, Store, running_embedded, running_fleet
from benchmarks.results import Results


@dataclass(frozen=True)
class Lab:
    """The contenders: `hivemem` uses the library, `plain` a plain NATS client, each by store; `embedded` is `hivemem
    up`. `places` are what a program of each contender needs to open it, by the contender's name."""

    sizes: Sizes
    results: Results
    fleets: dict[Store, Fleet]
    hivemem: dict[Store, HivememContender]
    plain: dict[Store, PlainNatsContender]
    embedded: HivememContender
    peer: LangGraphContender
    places: Mapping[str, str]

    @property
    def everybody(self) -> list[Contender]:
        return [*self.hivemem.values(), *self.plain.values(), self.embedded, self.peer]


@asynccontextmanager
async def open_lab(directory: Path, stores: Sequence[Store], results: Results) -> AsyncGenerator[Lab]:
    sizes = QUICK if results.quick else FULL
    file = directory / "langgraph.db"
    places = {"langgraph": str(file)}
    async with AsyncExitStack() as stack:
        fleets: dict[Store, Fleet] = {}
        hivemem: dict[Store, HivememContender] = {}
        plain: dict[Store, PlainNatsContender] = {}
        for store in stores:
            fleets[store] = stack.enter_context(running_fleet(directory / store, store, "agents"))
            places[store] = fleets[store].url
            hivemem[store] = await HivememContender.connect(store, fleets[store].url)
            plain[store] = await PlainNatsContender.connect(f"{store}-plain", fleets[store].url)
        up = stack.enter_context(running_embedded(directory / "up"))
        places["up"] = up.url
        embedded = await HivememContender.connect("up", up.url)
        lab = Lab(sizes, results, fleets, hivemem, plain, embedded, await LangGraphContender.open(file), places)
        for contender in lab.everybody:
            stack.push_async_callback(contender.close)
        yield lab
