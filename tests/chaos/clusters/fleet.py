"""Fleets on servers of several members. They are struck once they work: until then there is no load."""

import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from hivemem_testing.clusters import (
    MEMBERS,
    MongoReplicaSet,
    NatsCluster,
    packaged_mongo_replica_set,
    packaged_nats_cluster,
)
from hivemem_testing.process import POLL_SECONDS, ProcessServer
from hivemem_testing.servers import packaged_nats

from ..fleet import DUPLICATE_WINDOW_SECONDS, Command, Fleet, one_worker, works

READY_SECONDS = 60.0
STREAMS = {"HIVEMEM_STREAMS__DUPLICATE_WINDOW_SECONDS": str(DUPLICATE_WINDOW_SECONDS)}


@contextmanager
def fleet_on_three_nodes(directory: Path, workers: Sequence[Command]) -> Generator[tuple[Fleet, NatsCluster]]:
    """NATS with three copies of each stream; workers on SQLite."""
    with ExitStack() as stack:
        cluster = packaged_nats_cluster(directory)
        stack.callback(cluster.stop)
        settings = {
            **STREAMS,
            "HIVEMEM_NATS_URL": cluster.url,
            "HIVEMEM_STREAMS__REPLICAS": str(MEMBERS),
            "HIVEMEM_STORE": "sqlite",
            "HIVEMEM_DATA": str(directory / "data"),
        }
        started = [
            stack.enter_context(one_worker(directory / f"worker{number}", command, settings))
            for number, command in enumerate(workers)
        ]
        _wait_until_ready(started)
        yield Fleet(cluster.url, tuple(cluster.nodes), tuple(started)), cluster


@contextmanager
def fleet_on_three_members(directory: Path, workers: Sequence[Command]) -> Generator[tuple[Fleet, MongoReplicaSet]]:
    """MongoDB as a replica set of three, one NATS server."""
    with ExitStack() as stack:
        nats = stack.enter_context(packaged_nats(directory / "nats"))
        replica_set = packaged_mongo_replica_set(directory)
        stack.callback(replica_set.stop)
        settings = {
            **STREAMS,
            "HIVEMEM_NATS_URL": nats.url,
            "HIVEMEM_STORE": "mongo",
            "HIVEMEM_MONGO_URL": replica_set.url,
        }
        started = [
            stack.enter_context(one_worker(directory / f"worker{number}", command, settings))
            for number, command in enumerate(workers)
        ]
        _wait_until_ready(started)
        yield Fleet(nats.url, tuple(replica_set.members), tuple(started)), replica_set


def _wait_until_ready(workers: Sequence[ProcessServer]) -> None:
    until = time.monotonic() + READY_SECONDS
    for worker in workers:
        while not works(worker):
            assert time.monotonic() < until, f"{worker.name} is never ready: {worker.log}"
            time.sleep(POLL_SECONDS)
