"""A suite: what is measured of one service, side by side with its peers, and how that is shown."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from matplotlib.axes import Axes

from benchmarks.fleets import Fleet, Store
from benchmarks.results import Results
from benchmarks.rows import Row


class Lab(Protocol):
    """Everything that a suite measures, set up once for its run, on one disk."""

    @property
    def fleets(self) -> Mapping[Store, Fleet]: ...


OpenLab = Callable[[Path, Sequence[Store], Results], AbstractAsyncContextManager[Any]]
Scenario = Callable[[Any], Awaitable[None]]


@dataclass(frozen=True)
class Plot:
    """A plot of the page: so many axes side by side, and what stands below them. `draw` answers False where nothing of
    it was measured."""

    columns: int
    draw: Callable[[Results, Sequence[Axes]], bool]
    caption: str


@dataclass(frozen=True)
class Suite:
    """`stores` and `peers` are by their name in the results, with the heading of their column; `packages` those whose
    versions are told."""

    name: str
    title: str
    peer_name: str
    stores: Mapping[str, str]
    peers: Mapping[str, str]
    packages: Sequence[str]
    rows: Sequence[Row]
    plots: Mapping[str, Plot]
    scenarios: Mapping[str, Scenario]
    open_lab: OpenLab
