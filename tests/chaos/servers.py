"""The servers of a fleet: one of each, or a cluster, with relays in between if the network is to be cut."""

import random
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from hivemem_testing.clusters import MEMBERS, packaged_mongo_replica_set, packaged_nats_cluster
from hivemem_testing.ports import LOOPBACK
from hivemem_testing.process import ProcessServer
from hivemem_testing.servers import packaged_mongo, packaged_nats

from .strikes.network import Network, always
from .strikes.owners import owner_of
from .strikes.processes import Victim

Store = Literal["sqlite", "mongo", "embedded", "three-nodes", "three-members"]
"""Two kinds of clusters: NATS of three nodes with SQLite, MongoDB of three members with one NATS."""
Need = Literal["network", "clocks", "disk"]
"""Equipment to install before the fleet starts: relays, clocks that can jump, or a small disk."""


@dataclass(frozen=True)
class Cluster:
    names: Sequence[str]
    victim: Victim
    """Chooses a random node, or the primary."""
    healthy: Callable[[], bool]
    step_down: Callable[[], str] | None = None


@dataclass
class Servers:
    store: dict[str, str]
    """The settings of the store."""
    nats: ProcessServer | None = None
    mongo: ProcessServer | None = None
    """The NATS server, unless it is a cluster."""
    cluster: Cluster | None = None
    cluster_url: str = ""
    processes: list[ProcessServer] = field(default_factory=list[ProcessServer])
    named: dict[str, ProcessServer] = field(default_factory=dict[str, ProcessServer])
    network: Network | None = None

    @property
    def nats_url(self) -> str:
        return self.nats.url if self.nats is not None else self.cluster_url

    def settings(self, worker: str) -> dict[str, str]:
        """Return a worker's settings; it has relays of its own to servers that are no cluster."""
        found = {"HIVEMEM_NATS_URL": self.nats_url, **self.store}
        if self.network is not None and self.nats is not None:
            found["HIVEMEM_NATS_URL"] = f"nats://{LOOPBACK}:{self._relay(worker, self.nats)}"
        if self.network is not None and self.mongo is not None:
            port = self._relay(worker, self.mongo)
            found["HIVEMEM_MONGO_URL"] = f"mongodb://{LOOPBACK}:{port}/?directConnection=true"
        return found

    def _relay(self, worker: str, server: ProcessServer) -> int:
        assert self.network is not None
        return self.network.relay(server.name, server.port, always(worker))


def start_servers(
    stack: ExitStack, directory: Path, store: Store, network: Network | None, disk: Path | None
) -> Servers:
    """Start the servers. The small disk holds the nats-server's data and, with SQLite, the store."""
    on_sqlite = {"HIVEMEM_STORE": "sqlite", "HIVEMEM_DATA": str(disk or directory / "data")}
    servers = Servers({"HIVEMEM_STORE": "mongo"} if store in ("mongo", "three-members") else on_sqlite, network=network)
    if store == "three-nodes":
        _start_nodes(stack, directory, servers)
    else:
        place = disk if disk is not None and store == "mongo" else directory
        servers.nats = stack.enter_context(packaged_nats(place / "nats"))
        servers.processes.append(servers.nats)
    if store == "mongo":
        servers.mongo = stack.enter_context(packaged_mongo(directory / "mongo"))
        servers.processes.append(servers.mongo)
        servers.store["HIVEMEM_MONGO_URL"] = servers.mongo.url
    elif store == "three-members":
        _start_members(stack, directory, servers)
    return servers


def _start_nodes(stack: ExitStack, directory: Path, servers: Servers) -> None:
    nats = packaged_nats_cluster(directory, _front(servers))
    stack.callback(nats.stop)
    servers.processes += nats.nodes
    servers.named |= {node.name: node for node in nats.nodes}
    servers.store["HIVEMEM_STREAMS__REPLICAS"] = str(MEMBERS)
    servers.cluster_url = nats.url

    def victim(choice: random.Random) -> ProcessServer:
        return choice.choice(nats.nodes)

    servers.cluster = Cluster([node.name for node in nats.nodes], victim, nats.healthy)


def _start_members(stack: ExitStack, directory: Path, servers: Servers) -> None:
    mongo = packaged_mongo_replica_set(directory, _front(servers))
    stack.callback(mongo.stop)
    servers.processes += mongo.members
    servers.named |= {member.name: member for member in mongo.members}
    servers.store["HIVEMEM_MONGO_URL"] = mongo.url
    names = [member.name for member in mongo.members]
    servers.cluster = Cluster(names, lambda _: mongo.primary(), mongo.healthy, mongo.step_down)


def _front(servers: Servers) -> Callable[[str, int], int]:
    """Return the port at which the other members reach a member."""
    network = servers.network
    if network is None:
        return lambda _, port: port
    return lambda name, port: network.relay(name, port, owner_of(servers.named))
