"""The checks of the doctor. Each checks one thing and returns a finding with advice; none raises."""

import asyncio
import dataclasses
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, Literal, cast

import orjson
from nats.aio.msg import Msg

from hivemem.cli.counts import counted
from hivemem.cli.settings import CONNECT_SECONDS, Settings, client, detail_of
from hivemem.connection import Connection, NoAnswer
from hivemem.hive import Hive
from hivemem.jetstream import JetStreamError, jetstream
from hivemem_contracts.catalog import SERVICES
from hivemem_contracts.errors import Forbidden, HiveError, Unavailable
from hivemem_contracts.limits import MESSAGE_BYTES
from hivemem_contracts.streams import CHANGES, DEAD, INGEST, MINIMUM_SERVER

ASK_SECONDS: Final = 2.0
GATHER_SECONDS: Final = 0.4
ROUND_TRIPS: Final = 5
NEARLY_FULL: Final = 0.9
SERVICE_TOKEN: Final = 5
"""Its place in a stored subject: `hive.in.<partition>.<tenant>.<agent>.<service>.<operation>.<route>`."""
SERVICES_SHOWN: Final = 10
STREAMS: Final[dict[str, dict[str, Any]]] = {
    INGEST: {"subjects": ["hive.in.*.*.*.*.*"], "retention": "workqueue", "discard": "new", "storage": "file"},
    CHANGES: {"subjects": ["hive.chg.>"], "retention": "limits", "storage": "file"},
    DEAD: {"subjects": ["hive.dead.>"], "retention": "limits", "storage": "file", "allow_direct": True},
}
ADVICE: Final = {
    "store": "check that it runs and its disk has space; then the worker recovers by itself",
    "connection": "check that the nats-server runs and the worker can reach it",
    "commands": "the worker's log names the command that fails, and why",
    "announcer": "check that the nats-server stores messages: its log, its disk, `nats stream info CHANGES`",
    "reactions": "check that the nats-server runs; restart the worker if the trouble persists",
    "server": "free space on the nats-server's disk, then restart it",
    "background": "see its log for the cause; restart the worker if the trouble persists",
    "worker": "wait until it has started, or see its log",
}
"""Advice for each trouble, by the part that reports it."""
OLDER_LEDGER: Final = "the ledger is older"
START_WORKERS: Final = "start the workers, or `hivemem up`: they create it"

Outcome = Literal["ok", "warning", "failed"]


@dataclasses.dataclass(frozen=True, slots=True)
class Check:
    """One check with its outcome and its advice."""

    name: str
    outcome: Outcome
    detail: str
    advice: str = ""


async def examine(settings: Settings) -> list[Check]:
    """Run every check whose requirements are met, and skip the others."""
    quick = dataclasses.replace(settings, timeout_seconds=min(settings.timeout_seconds, CONNECT_SECONDS))
    try:
        async with client(quick) as connected:
            return await _examine(connected)
    except Unavailable as error:
        context = error.context
        detail = f"no NATS server at {context['url']}: {context['cause']}" if "cause" in context else error.detail
        advice = "start one with `hivemem up`, or name another with --url or HIVEMEM_URL"
        return [Check("server", "failed", detail, advice)]
    except Forbidden as error:
        advice = "check the user and the password, token or key for this server"
        return [Check("server", "failed", error.detail, advice)]
    except HiveError as error:
        return [Check("server", "failed", detail_of(settings, error), "correct the option")]


async def _examine(hive: Hive) -> list[Check]:
    connection = hive.connection
    checks = [await _server(connection), _version(connection), _payload(connection)]
    account = await _jetstream(connection)
    checks.append(account)
    if account.outcome != "failed":
        checks += [await _stream(connection, name, wanted) for name, wanted in STREAMS.items()]
    workers = await _gather(connection, "$SRV.STATS")
    checks += _services(workers)
    if account.outcome != "failed":
        checks.append(await _waiting(connection, {str(worker.get("name")) for worker in workers}))
    checks.append(await _round_trip(hive))
    return checks


async def _server(connection: Connection) -> Check:
    try:
        seconds = await connection.client.rtt(timeout=2)
    except Exception as error:  # nats-py raises various errors for a lost connection
        return Check("server", "failed", f"{connection.shown_url} does not answer: {error!r}", "look at its log")
    return Check("server", "ok", f"{connection.shown_url}, {seconds * 1_000:.1f} ms away")


def _version(connection: Connection) -> Check:
    found = connection.client.connected_server_version
    has = (found.major, found.minor, found.patch)
    needed = ".".join(str(part) for part in MINIMUM_SERVER)
    text = ".".join(str(part) for part in has)
    if has < MINIMUM_SERVER:
        return Check("version", "failed", f"nats-server {text}", f"install nats-server {needed} or newer")
    return Check("version", "ok", f"nats-server {text}")


def _payload(connection: Connection) -> Check:
    limit = connection.client.max_payload
    if limit < MESSAGE_BYTES:
        advice = f"set max_payload of the server to {MESSAGE_BYTES} or more, or keep to smaller bodies"
        return Check("payload", "warning", f"the server takes {limit} bytes a message", advice)
    return Check("payload", "ok", f"the server takes {limit} bytes a message")


async def _jetstream(connection: Connection) -> Check:
    try:
        info = await jetstream(connection, "INFO", None, ASK_SECONDS)
    except (NoAnswer, JetStreamError) as error:
        advice = "start the server with JetStream: `jetstream { store_dir: … }` in its configuration"
        return Check("jetstream", "failed", f"not enabled for this account: {error}", advice)
    return Check("jetstream", "ok", f"{counted(info['streams'], 'stream')}, {_megabytes(info['storage'])} on disk")


async def _stream(connection: Connection, name: str, wanted: Mapping[str, Any]) -> Check:
    label = f"stream {name}"
    try:
        info = await jetstream(connection, f"STREAM.INFO.{name}", None, ASK_SECONDS)
    except (NoAnswer, JetStreamError) as error:
        return Check(label, "failed", str(error), START_WORKERS)
    config, state = info["config"], info["state"]
    differing = [
        f"{field} is {config.get(field)!r}, not {value!r}"
        for field, value in wanted.items()
        if config.get(field) != value
    ]
    if differing:
        advice = "save its messages elsewhere, delete it, and start the workers: they create it again"
        return Check(label, "failed", "; ".join(differing), advice)
    held = f"{counted(state['messages'], 'message')}, {_megabytes(state['bytes'])}"
    limit = int(config.get("max_bytes", -1))
    if name == INGEST and limit > 0 and state["bytes"] > limit * NEARLY_FULL:
        return Check(label, "warning", f"{held}: nearly full", "check that the workers run, or start more of them")
    if name == DEAD and state["messages"]:
        return Check(label, "warning", held, "see `hivemem dead list`")
    return Check(label, "ok", held)


def _services(workers: Sequence[Mapping[str, Any]]) -> list[Check]:
    """Return a check for each service, and one for each worker that is not ready."""
    checks: list[Check] = []
    for contract in SERVICES:
        mine = [worker for worker in workers if worker.get("name") == contract.name]
        label = f"service {contract.name}"
        if not mine:
            checks.append(Check(label, "failed", "no worker answers", "start one, or `hivemem up`"))
            continue
        versions = sorted({str(worker.get("version")) for worker in mine})
        detail = f"{counted(len(mine), 'worker')}, version {', '.join(versions)}"
        mixed = len(versions) > 1
        advice = "bring all of them to the same version" if mixed else ""
        checks.append(Check(label, "warning" if mixed else "ok", detail, advice))
        checks += [check for worker in mine for check in _troubles(contract.name, worker)]
        checks += _losses(contract.name, mine)
    return [*checks, _durability(workers)]


async def _waiting(connection: Connection, served: Collection[str]) -> Check:
    """Report the durable commands that wait, by service; `served` are the services whose workers answer."""
    try:
        info = await jetstream(connection, f"STREAM.INFO.{INGEST}", {"subjects_filter": ">"}, ASK_SECONDS)
    except (NoAnswer, JetStreamError) as error:
        return Check("commands", "failed", str(error), START_WORKERS)
    counts = Counter[str]()
    for subject, count in cast("dict[str, int]", info["state"].get("subjects") or {}).items():
        tokens = subject.split(".")
        counts[tokens[SERVICE_TOKEN] if len(tokens) > SERVICE_TOKEN else subject] += count
    if not counts:
        return Check("commands", "ok", "none wait")
    unlisted = int(info["state"]["messages"]) - counts.total()
    shown = counts.most_common(SERVICES_SHOWN)
    detail = ", ".join(f"{count} {'waits' if count == 1 else 'wait'} for {service}" for service, count in shown)
    detail += f", {unlisted} more {'is' if unlisted == 1 else 'are'} not listed" if unlisted > 0 else ""
    absent = [service for service, _ in shown if service not in served]
    if absent:
        return Check("commands", "warning", detail, f"start a worker of {', '.join(absent)}: they wait until then")
    return Check("commands", "ok", detail)


def _health(worker: Mapping[str, Any]) -> dict[str, Any]:
    endpoints = cast("list[dict[str, Any]]", worker.get("endpoints") or [])
    for endpoint in endpoints:
        data: dict[str, Any] = endpoint.get("data") or {}
        if "health" in data:
            return cast("dict[str, Any]", data["health"])
    return {}


def _troubles(service: str, worker: Mapping[str, Any]) -> list[Check]:
    """Return the troubles of a worker, each as `<part>: <text>`."""
    health = _health(worker)
    if health.get("ready") is not False:
        return []
    troubles = cast("list[str]", health.get("troubles") or [orjson.dumps(health, default=str).decode()])
    return [
        Check(
            f"worker {service}",
            "failed",
            f"{worker.get('id')} is not ready: {trouble}",
            ADVICE.get(trouble.partition(":")[0], "see its log for the cause"),
        )
        for trouble in troubles
    ]


def _losses(service: str, workers: Sequence[Mapping[str, Any]]) -> list[Check]:
    """Return a warning for each time that the feed had to be announced again since the workers started."""
    announcers = [cast("dict[str, Any]", _health(worker).get("announcer") or {}) for worker in workers]
    losses = [cast("list[str]", announcer.get("losses") or []) for announcer in announcers]
    reasons = dict.fromkeys(reason for told in losses for reason in told)
    return [
        Check(
            f"feed of {service}",
            "warning",
            f"it was announced again: {reason}",
            "writes are gone from the store: restore a newer copy of it"
            if reason.startswith(OLDER_LEDGER)
            else "nothing: the feed is whole again, and readers with older cursors were told",
        )
        for reason in reasons
    ]


def _durability(workers: Sequence[Mapping[str, Any]]) -> Check:
    """Report which acknowledged messages a power cut may take, from the workers' view of their nats-server."""
    servers = [cast("dict[str, Any]", _health(worker).get("server") or {}) for worker in workers]
    syncs = sorted({str(server["sync"]) for server in servers if server.get("sync")})
    if not syncs:
        return Check(
            "durability",
            "ok",
            "unknown: no worker knows the server's monitoring, so a power cut may lose acknowledged messages",
            "set HIVEMEM_NATS_MONITOR_URL of the workers",
        )
    if syncs == ["always"]:
        return Check("durability", "ok", "the server syncs each message to the disk before it acknowledges it")
    return Check(
        "durability",
        "warning",
        f"the server syncs to the disk every {', '.join(syncs)}: a power cut loses messages acknowledged since then",
        "set `sync_interval: always` in the `jetstream` part of its configuration",
    )


async def _round_trip(hive: Hive) -> Check:
    times: list[float] = []
    try:
        for _ in range(ROUND_TRIPS):
            started = time.perf_counter()
            await hive.sessions.list(limit=1)
            times.append(time.perf_counter() - started)
    except HiveError as error:
        return Check(
            "round trip",
            "failed",
            f"sessions.list: {error.name}{f', {reason}' if (reason := error.context.get('reason')) else ''}",
            "see the failures above, and the worker's log",
        )
    return Check("round trip", "ok", f"{sorted(times)[len(times) // 2] * 1_000:.2f} ms for a request and its answer")


async def _gather(connection: Connection, subject: str) -> list[dict[str, Any]]:
    """Collect the answers of all workers that reply in time."""
    answers: list[dict[str, Any]] = []

    def take(message: Msg) -> None:
        if message.data:
            answers.append(orjson.loads(message.data))

    inbox = connection.new_inbox()
    try:
        unsubscribe = await connection.subscribe(inbox, take)
    except NoAnswer:
        return []
    await connection.publish(subject, reply=inbox)
    await asyncio.sleep(GATHER_SECONDS)
    await unsubscribe()
    return answers


def _megabytes(count: int) -> str:
    return f"{count / 1_048_576:.1f} MiB"
