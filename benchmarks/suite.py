"""A suite: the measurements of one service, side by side with its peers, and their presentation."""

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
    """The contenders of a suite, set up once for its run, on one disk."""

    @property
    def fleets(self) -> Mapping[Store, Fleet]: ...


OpenLab = Callable[[Path, Sequence[Store], Results], AbstractAsyncContextManager[Any]]
Scenario = Callable[[Any], Awaitable[None]]


@dataclass(frozen=True)
class Plot:
    """A plot of the page: its number of axes side by side, and its caption. `draw` returns False without
    measurements."""

    columns: int
    draw: Callable[[Results, Sequence[Axes]], bool]
    caption: str


@dataclass(frozen=True)
class Suite:
    """A suite. `stores` and `peers` map names in the results to column headings; `packages` are listed with their
    versions."""

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
