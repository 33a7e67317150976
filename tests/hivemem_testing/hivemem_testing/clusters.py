"""Several members of one server, each a private process: NATS nodes with JetStream, a replica set of MongoDB."""

import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pymongo import MongoClient
from pymongo.errors import PyMongoError

from hivemem_testing.packaged import mongod, packaged_nats
from hivemem_testing.ports import LOOPBACK, free_port
from hivemem_testing.process import POLL_SECONDS, ProcessServer, ServerFailedError
from hivemem_testing.readiness import ANSWER_TIMEOUT_SECONDS, REPLICA_SET, accepts, http_answers

MEMBERS: Final = 3
HEALTHY_SECONDS: Final = 60.0
Front = Callable[[str, int], int]
"""Takes a member's name and its own port, and returns the port by which the others reach it."""
ELECTION_MILLISECONDS: Final = 2_000
"""A fifth of the default, so that a test need not wait ten seconds for each new primary."""
_HEARTBEAT_MILLISECONDS: Final = 500


@dataclass(frozen=True)
class NatsCluster:
    nodes: Sequence[ProcessServer]
    monitors: Sequence[int]

    @property
    def url(self) -> str:
        return ",".join(node.url for node in self.nodes)

    def healthy(self) -> bool:
        """Return whether every node runs, and its streams and consumers are up to date."""
        return all(http_answers(LOOPBACK, port, "/healthz") for port in self.monitors)

    def stop(self) -> None:
        for node in self.nodes:
            node.stop()


def _no_front(name: str, port: int) -> int:
    del name
    return port


def packaged_nats_cluster(directory: Path, front: Front = _no_front) -> NatsCluster:
    """Start the cluster and wait until it is healthy. The nodes reach each other by `front`, clients reach them
    directly."""
    routes = [free_port() for _ in range(MEMBERS)]
    monitors = [free_port() for _ in range(MEMBERS)]
    fronts = [front(f"nats{number}", port) for number, port in enumerate(routes)]
    addresses = ", ".join(f'"nats://{LOOPBACK}:{port}"' for port in fronts)
    nodes: list[ProcessServer] = []
    for number, (route, monitor) in enumerate(zip(routes, monitors, strict=True)):
        extra = (
            f'server_name: n{number}\nhttp: "{LOOPBACK}:{monitor}"\n'
            f'cluster {{ name: hive, listen: "{LOOPBACK}:{route}", advertise: "{LOOPBACK}:{fronts[number]}", '
            f"routes: [{addresses}] }}"
        )
        nodes.append(packaged_nats(directory / f"nats{number}", extra_configuration=extra))
        nodes[-1].name = f"nats{number}"
    cluster = NatsCluster(nodes, monitors)
    _wait_until(cluster.healthy, "the NATS cluster")
    return cluster


@dataclass(frozen=True)
class MongoReplicaSet:
    members: Sequence[ProcessServer]

    @property
    def url(self) -> str:
        hosts = ",".join(_host(member) for member in self.members)
        return f"mongodb://{hosts}/?replicaSet={REPLICA_SET}"

    def primary(self) -> ProcessServer | None:
        """Return the member that takes writes, or None during an election or while two members claim to be it."""
        found = [member for member in self.members if _hello(member).get("isWritablePrimary")]
        return found[0] if len(found) == 1 else None

    def healthy(self) -> bool:
        """Return whether there is one primary, and every other member follows it."""
        states = [_hello(member) for member in self.members]
        primaries = sum(bool(state.get("isWritablePrimary")) for state in states)
        return primaries == 1 and all(state.get("isWritablePrimary") or state.get("secondary") for state in states)

    def step_down(self) -> str:
        """Return the name of the primary that stepped down, or an empty string if the command failed."""
        primary = self.primary()
        if primary is None:
            return ""
        try:
            with _client(primary) as client:
                client.admin.command("replSetStepDown", 5, secondaryCatchUpPeriodSecs=2, force=True)
        except PyMongoError:
            return ""
        return primary.name

    def stop(self) -> None:
        for member in self.members:
            member.stop()


def packaged_mongo_replica_set(directory: Path, front: Front = _no_front) -> MongoReplicaSet:
    """Start the set and wait until the others follow its primary. Members and clients reach each member by `front`."""
    members: list[ProcessServer] = []
    for number in range(MEMBERS):
        port = free_port()
        members.append(mongod(directory / f"mongo{number}", port, functools.partial(accepts, LOOPBACK, port)))
        members[-1].name = f"mongo{number}"
        members[-1].start()
    replica_set = MongoReplicaSet(members)
    configuration = {
        "_id": REPLICA_SET,
        "members": [
            {"_id": number, "host": f"{LOOPBACK}:{front(member.name, member.port)}"}
            for number, member in enumerate(members)
        ],
        "settings": {
            "electionTimeoutMillis": ELECTION_MILLISECONDS,
            "heartbeatIntervalMillis": _HEARTBEAT_MILLISECONDS,
        },
    }
    with _client(members[0]) as client:
        client.admin.command("replSetInitiate", configuration)
    _wait_until(replica_set.healthy, "the replica set")
    return replica_set


def _wait_until(healthy: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + HEALTHY_SECONDS
    while not healthy():
        if time.monotonic() > deadline:
            raise ServerFailedError(f"{what} was not healthy after {HEALTHY_SECONDS:.0f} s")
        time.sleep(POLL_SECONDS)


def _host(member: ProcessServer) -> str:
    return member.url.removeprefix("mongodb://").partition("/")[0]


def _hello(member: ProcessServer) -> dict[str, Any]:
    try:
        with _client(member) as client:
            return dict(client.admin.command("hello"))
    except PyMongoError:
        return {}


def _client(member: ProcessServer) -> MongoClient[dict[str, Any]]:
    milliseconds = int(ANSWER_TIMEOUT_SECONDS * 1_000)
    return MongoClient[dict[str, Any]](
        f"mongodb://{_host(member)}",
        directConnection=True,
        serverSelectionTimeoutMS=milliseconds,
        connectTimeoutMS=milliseconds,
        socketTimeoutMS=2 * milliseconds,
    )
