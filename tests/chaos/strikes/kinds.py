"""The kinds of strikes: which parts of a fleet each strikes, and what equipment it needs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ..fleet import Fleet, works
from ..servers import Need, Store
from .clocks import jump
from .disks import filling
from .partitions import between, cut_off, partition
from .processes import freezing, killing, only, stepping_down
from .striker import Strike, Target


@dataclass(frozen=True)
class Kind:
    targets: Callable[[Fleet], Sequence[Target]]
    stores: Sequence[Store]
    """The stores on which this kind makes sense."""
    need: Need | None = None


def _kills(fleet: Fleet) -> list[Target]:
    """Kill each process independently; freeze workers now and then."""
    found = [
        Target(each.name, [killing(only(each), down_seconds=0.1)], between_seconds=1.0, waits=0.5)
        for each in (*fleet.servers, *fleet.outside)
    ]
    for worker in fleet.workers:
        kill, freeze = killing(only(worker), down_seconds=0.05), freezing(only(worker), (0.05, 4.0))
        found.append(Target(worker.name, [*[kill] * 6, freeze], between_seconds=0.5, waits=0.5))
    return found


def _kills_but_nats(fleet: Fleet) -> list[Target]:
    return _kills(replace(fleet, servers=tuple(each for each in fleet.servers if each.name != "nats-server")))


def _rolling(fleet: Fleet) -> list[Target]:
    """Strike one member at a time, the next one once all are healthy again."""
    cluster = fleet.cluster
    assert cluster is not None
    strikes: list[Strike] = [killing(cluster.victim, down_seconds=0.5), freezing(cluster.victim, (0.2, 4.0))]
    if cluster.step_down is not None:
        strikes.append(stepping_down(cluster.step_down))
    if fleet.network is not None:
        strikes.append(partition(fleet.network, cut_off(cluster.victim, cluster.names)))
    return [Target("rolling", strikes, between_seconds=0.2, healthy=cluster.healthy)]


def _partitions(fleet: Fleet) -> list[Target]:
    """Cut each worker off from each server."""
    network = fleet.network
    assert network is not None
    return [
        Target(
            f"{worker.name} to {server.name}",
            [partition(network, between(worker.name, server.name))],
            between_seconds=1.0,
            waits=0.5,
        )
        for worker in fleet.workers
        for server in fleet.servers
    ]


def _clocks(fleet: Fleet) -> list[Target]:
    """Let clocks jump while workers are killed as well."""
    assert fleet.clocks
    jumps = [
        Target(f"{name} clock", [jump(clock, name)], between_seconds=0.5, waits=0.5)
        for name, clock in fleet.clocks.items()
    ]
    return [*jumps, *_kills(replace(fleet, servers=(), outside=()))]


def _full_disk(fleet: Fleet) -> list[Target]:
    assert fleet.disk is not None
    restarted = [each for each in fleet.servers if each.name == "nats-server"]
    return [
        Target(
            "disk",
            [filling(fleet.disk, restarted)],
            between_seconds=1.0,
            healthy=lambda: all(works(worker) for worker in fleet.workers),
        )
    ]


def _outages(fleet: Fleet) -> list[Target]:
    """Take away servers that a fleet can miss for a while, for seconds each time."""
    return [
        Target(each.name, [killing(only(each), down_seconds=1.0), freezing(only(each), (0.2, 4.0))], 0.2)
        for each in fleet.outside
    ]


KINDS: Final[Mapping[str, Kind]] = {
    "kills": Kind(_kills, ("embedded", "sqlite", "mongo")),
    "kills-but-nats": Kind(_kills_but_nats, ("embedded", "sqlite", "mongo")),
    "rolling": Kind(_rolling, ("three-nodes", "three-members"), "network"),
    "partitions": Kind(_partitions, ("sqlite", "mongo"), "network"),
    "clocks": Kind(_clocks, ("embedded", "sqlite", "mongo"), "clocks"),
    "full-disk": Kind(_full_disk, ("embedded", "sqlite", "mongo"), "disk"),
    "outages": Kind(_outages, ("sqlite", "mongo")),
}
