"""Everything that is measured, set up once for the whole run, on one disk."""

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from benchmarks.contenders import Contender, HivememContender, PlainNatsContender
from benchmarks.fleets import Fleet, Store, running_embedded, running_fleet
from benchmarks.peers import AdkContender
from benchmarks.results import Results
from benchmarks.sizes import Sizes
from hivemem_contracts.identifiers import new_id

T = TypeVar("T")


@dataclass(frozen=True)
class Lab:
    """`hivemem` is through the library, by store; `plain` by hand; `embedded` is `hivemem up`."""

    directory: Path
    sizes: Sizes
    results: Results
    fleets: dict[Store, Fleet]
    hivemem: dict[Store, HivememContender]
    plain: dict[Store, PlainNatsContender]
    embedded: HivememContender
    peers: tuple[AdkContender, ...]

    @property
    def everybody(self) -> list[Contender]:
        return [*self.hivemem.values(), *self.plain.values(), self.embedded, *self.peers]

    @property
    def libraries(self) -> list[Contender]:
        """As they are used: without the plain clients."""
        return [*self.hivemem.values(), *self.peers]


@asynccontextmanager
async def open_lab(directory: Path, stores: Sequence[Store], sizes: Sizes, results: Results) -> AsyncGenerator[Lab]:
    async with AsyncExitStack() as stack:
        fleets: dict[Store, Fleet] = {}
        hivemem: dict[Store, HivememContender] = {}
        plain: dict[Store, PlainNatsContender] = {}
        for store in stores:
            fleets[store] = stack.enter_context(running_fleet(directory / store, store))
            hivemem[store] = await HivememContender.connect(store, fleets[store].url)
            plain[store] = await PlainNatsContender.connect(f"{store}-plain", fleets[store].url)
        up = await HivememContender.connect("up", stack.enter_context(running_embedded(directory / "up")).url)
        peers = (AdkContender.sqlite(directory), AdkContender.database(directory))
        lab = Lab(directory, sizes, results, fleets, hivemem, plain, up, peers)
        for contender in lab.everybody:
            stack.push_async_callback(contender.close)
        yield lab


def turns(contenders: Sequence[T], rounds: int) -> Iterator[tuple[int, T]]:
    """Everybody once a round; who begins changes, so that nobody always runs after the same one."""
    for number in range(rounds):
        first = number % len(contenders)
        for contender in (*contenders[first:], *contenders[:first]):
            yield number, contender


def fresh(kind: str) -> str:
    return f"{kind}-{new_id()}"
