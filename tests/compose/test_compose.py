"""The real compose file comes up, spreads the work, and loses nothing while its containers come and go."""

import asyncio
import gc
import random
import re
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from typing import Any

import nats
import pytest
from nats.aio.client import Client
from packaging.utils import canonicalize_name

import hivemem
from hivemem_contracts.streams import CHANGES
from hivemem_contracts.subjects import request_subject

from .load import ASKER, PUBLISHER, TENANT, Load, answered
from .project import ROOT, WORKERS, Project
from .reading import Announced, appends_answered, commands_waiting, dead_letters, events_of, feed, messages_in

pytestmark = [
    pytest.mark.compose,
    pytest.mark.timeout(1_500),
    # The published port of a stopped container still accepts connections, and nats-py does not close a silent one.
    pytest.mark.filterwarnings("ignore:unclosed <StreamWriter:ResourceWarning"),
]

PARTITIONS = 8
RECALLS = 12
FILE_BYTES = 3 * 1024 * 1024
READS = 4
REMEMBERED = {
    "seat": "On trains Alice wants to be seated at the window.",
    "meal": "No nuts: she is allergic to them.",
    "error": "The payment service answers ERR-4312 when its certificate has expired.",
}


@pytest.fixture
async def client(project: Project) -> AsyncIterator[Client]:
    async def quiet(_: Exception) -> None:
        """Ignore connection errors, since these tests restart the server."""

    client = await nats.connect(  # pyright: ignore[reportUnknownMemberType]  # its options are untyped
        project.nats_url, max_reconnect_attempts=-1, reconnect_time_wait=0.1, error_cb=quiet
    )
    yield client
    await client.close()
    gc.collect()  # collect here, where the warning is expected


def test_everything_comes_up_healthy_and_only_the_bus_is_reachable_on_loopback(project: Project) -> None:
    found = project.inspect(project.containers())

    services = sorted(container["Config"]["Labels"]["com.docker.compose.service"] for container in found)
    assert services == sorted(["minio", "mongo", "nats", "qdrant", *WORKERS * 3])
    assert {container["State"]["Health"]["Status"] for container in found} == {"healthy"}
    assert {container["HostConfig"]["RestartPolicy"]["Name"] for container in found} == {"unless-stopped"}
    published = [binding for container in found for binding in bindings(container)]
    assert published == [{"HostIp": "127.0.0.1", "HostPort": str(project.nats_port)}]


@pytest.mark.parametrize("worker", WORKERS)
def test_a_worker_runs_without_rights_on_a_root_that_it_cannot_write(project: Project, worker: str) -> None:
    for container in project.containers(worker):
        (found,) = project.inspect([container])
        assert found["HostConfig"]["ReadonlyRootfs"] is True
        assert found["Config"]["StopSignal"] == "SIGTERM"
        status = project.docker("exec", container, "cat", "/proc/1/status")
        fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        assert set(fields["Uid"].split()) == {"10001"}
        assert int(fields["CapEff"], 16) == 0
        assert fields["NoNewPrivs"] == "1"


@pytest.mark.parametrize("worker", WORKERS)
def test_an_image_holds_what_its_worker_needs_as_the_lock_names_it_and_no_more(project: Project, worker: str) -> None:
    installed = project.installed(project.containers(worker)[0])

    ours = {name for name in installed if name.startswith("hivemem")}
    assert ours == {"hivemem-contracts", "hivemem-runtime", f"hivemem-{worker}"}
    assert installed.keys() & {"pip", "pytest", "rich", "typer", "uv", "uv-build"} == set()
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    pins = set(re.findall(r"^([a-z0-9-]+==[^ ;]+)", lock, re.MULTILINE))
    assert {f"{canonicalize_name(name)}=={installed[name]}" for name in installed.keys() - ours} <= pins


async def test_what_is_remembered_is_found_by_meaning_whoever_is_asked(
    project: Project, client: Client, figures: list[str]
) -> None:
    load = Load(client)  # used for its patience only
    for key, text in REMEMBERED.items():
        put = {"namespace": "user:alice", "key": key, "value": text}
        await answered(client, request_subject(TENANT, ASKER, "memory", "put"), put, f"put-{key}")

    started = time.monotonic()
    await load.eventually(lambda: found_first(client, "seat"), "each replica finds it")
    figures.append(f"found by meaning by every replica {time.monotonic() - started:.2f} s after it was written")

    await asyncio.to_thread(project.compose, "restart", "qdrant")
    await load.eventually(lambda: found_first(client, "seat"), "it is found after a restart of Qdrant")
    put = {"namespace": "user:alice", "key": "seat", "value": "She has come to like the aisle of a bus."}
    await answered(client, request_subject(TENANT, ASKER, "memory", "put"), put, "put-again")
    await load.eventually(lambda: found_first(client, "seat", version=2), "so is what was written since")


async def test_a_file_goes_to_minio_and_comes_back_by_any_worker(project: Project) -> None:
    data = random.Random(3).randbytes(FILE_BYTES)  # any bytes
    async with hivemem.connect(project.nats_url, agent=ASKER, timeout_seconds=60) as hive:
        saved = await hive.artifacts.upload("trip", "map.bin", data)
        assert saved.size == FILE_BYTES
        for _ in range(READS):
            assert await hive.artifacts.read(saved.url) == data


async def test_nothing_is_lost_and_order_holds_while_containers_come_and_go(
    project: Project, client: Client, figures: list[str]
) -> None:
    load = Load(client)
    async with load.running():
        await load.progress(50)
        await the_work_is_spread(project, client, load, figures)
        waited = {"three replicas": load.take_longest_wait()}

        # The first replica will be stopped, the second killed.
        first, second, _ = project.containers("sessions")
        await asyncio.to_thread(project.up, sessions=4)
        await partitions_are_shared(project, load, replicas=4)
        await load.progress(20)
        waited["a fourth replica"] = load.take_longest_wait()

        await asyncio.to_thread(project.docker, "stop", "--time", "45", first)
        (stopped,) = await asyncio.to_thread(project.inspect, [first])
        assert stopped["State"]["ExitCode"] == 0
        await partitions_are_shared(project, load, replicas=3)
        await load.progress(20)
        waited["a replica stopped"] = load.take_longest_wait()

        await asyncio.to_thread(project.docker, "kill", "--signal", "KILL", second)
        await partitions_are_shared(project, load, replicas=2)
        await load.progress(20)
        waited["a replica killed"] = load.take_longest_wait()

        for server in ("nats", "mongo"):
            await asyncio.to_thread(project.compose, "restart", server)
            await load.progress(20)
            waited[f"{server} restarted"] = load.take_longest_wait()

    figures += [f"longest wait for an acknowledgement, {what}: {seconds:.2f} s" for what, seconds in waited.items()]
    figures.append(f"acknowledged: {load.acknowledged(ASKER)} requests, {load.acknowledged(PUBLISHER)} commands")
    await everything_is_there_once_and_in_order(client, load, figures)

    project.down(volumes=False)
    figures.append(f"up again on the same volumes in {project.up(sessions=1):.1f} s")
    await everything_is_there_once_and_in_order(client, load, figures)


async def found_first(client: Client, key: str, *, version: int = 1) -> bool:
    """Return whether the memory is the best hit of several complete answers, enough to ask every replica."""
    subject = request_subject(TENANT, ASKER, "vectors", "recall")
    body = {"query": "where does she like to sit", "namespace_prefix": "user:alice", "wait_ms": 1_000}
    for _ in range(RECALLS):
        answer = await answered(client, subject, body, "recall")
        best = answer["items"][0] if answer["items"] else {"key": "", "version": 0}
        if answer["degraded"] or (best["key"], best["version"]) != (key, version):
            return False
    return True


def bindings(container: dict[str, Any]) -> list[dict[str, str]]:
    ports: dict[str, list[dict[str, str]] | None] = container["NetworkSettings"]["Ports"]
    return [binding for published in ports.values() for binding in published or []]


async def the_work_is_spread(project: Project, client: Client, load: Load, figures: list[str]) -> None:
    """Check that each replica answers requests and owns partitions of the durable commands."""
    replicas = project.containers("sessions")
    settled = await partitions_are_shared(project, load, replicas=len(replicas))
    answered = await appends_answered(client, replicas=len(replicas))
    assert min(answered.values()) > 0
    assert min(settled) > 0
    figures.append(f"requests by replica: {sorted(answered.values())}, commands: {sorted(settled)}")


async def partitions_are_shared(project: Project, load: Load, *, replicas: int) -> list[int]:
    """Wait until the replicas share all partitions and each has settled commands; return the number for each."""
    settled: list[int] = []

    async def shared() -> bool:
        statuses = [(await asyncio.to_thread(project.status, id))["commands"] for id in project.containers("sessions")]
        settled[:] = [status["settled"] for status in statuses]
        pinned = sorted(number for status in statuses for number in status["pinned"])
        return len(statuses) == replicas and pinned == list(range(PARTITIONS)) and min(settled) > 0

    await load.eventually(shared, f"{replicas} replicas that share the partitions")
    return settled


async def everything_is_there_once_and_in_order(client: Client, load: Load, figures: list[str]) -> None:
    async def drained() -> bool:
        return await commands_waiting(client) == 0

    await load.eventually(drained, "no command waits")
    assert await dead_letters(client) == 0

    kept = {id: await events_of(client, id) for id in load.session_ids}
    for id, events in kept.items():
        assert [event["sequence"] for event in events] == list(range(1, len(events) + 1)), id
    for writer in load.writers:
        own = [event for event in kept[writer.session_id] if event["author"] == writer.agent]
        assert [event["event_id"] for event in own] == writer.acknowledged
        assert writer.sequences.items() <= {event["event_id"]: event["sequence"] for event in own}.items()

    total = sum(map(len, kept.values()))

    async def announced() -> bool:
        return await messages_in(client, CHANGES) >= total + len(kept)

    await load.eventually(announced, "everything is announced")
    by_session: defaultdict[tuple[str, str], list[Announced]] = defaultdict(list)
    for change in await feed(client):
        by_session[change.entity, change.session_id].append(change)
    for id, events in kept.items():
        changes = by_session["event", id]
        assert [change.event_id for change in changes] == [event["event_id"] for event in events], id
        assert [change.version for change in changes] == [event["sequence"] for event in events], id
        assert [change.previous_version or 0 for change in changes] == list(range(len(events))), id
        # Some of a session's revisions are changes of the session itself; they appear once and in order.
        revisions = [change.version for change in by_session["session", id]]
        assert revisions[0] == 1
        assert revisions == sorted(set(revisions)), id
    figures.append(f"{total} events in {len(kept)} sessions: each there once, in order, announced once and in order")
