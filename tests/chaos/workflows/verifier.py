"""Compares runs, their steps, the session, the memories, the cycles and the feed with the model and the journal."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nats.aio.client import Client

from ..agents.verifier import check_cycles, check_feed, read_items, steps_by_cycle
from ..asking import Asking
from ..feed import Entry, in_order, read_feed
from ..journal import Sent
from ..memory.held import read_history
from ..sessions.verifier import Held, check_event_feed, read_session
from .load import AGENTS, KEYS, NAMESPACE, SESSION, Journal, fails_once, key_of
from .run_model import Taken, changes_of, event_type, status_of, steps_of

Body = dict[str, Any]


async def verify(client: Client, journal: Journal) -> list[str]:
    asking = Asking(client, "agents")
    entries = await read_feed(client)
    runs = {run_id: await _read_run(asking, run_id) for run_id in journal.inputs}
    held = await read_session(Asking(client, "sessions"), SESSION)
    memory = Asking(client, "memory")
    histories = {key: await read_history(memory, NAMESPACE, key) for key in KEYS}
    found: list[str] = []
    for run_id, run in runs.items():
        found += check_run(run, journal)
        found += check_run_feed(run_id, journal.inputs[run_id], entries)
    found += check_session(held, runs, journal)
    found += check_event_feed(held, [entry for entry in entries if entry.subject.endswith(f".event.{SESSION}")])
    found += check_memories(histories, runs)
    found += check_memory_feed(histories, entries)
    found += await _check_agents(asking, journal, entries)
    return found


async def _read_run(asking: Asking, run_id: str) -> Body:
    run = await asking.request("run_get", {"run_id": run_id, "limit": 5})
    while run["cursor"]:
        page = await asking.request("run_get", {"run_id": run_id, "limit": 5, "cursor": run["cursor"]})
        run = {**run, "steps": [*page["steps"], *run["steps"]], "cursor": page["cursor"]}
    return run


def check_run(run: Body, journal: Journal) -> Iterator[str]:
    """Check that a run took the model's steps, each once, with the result that was acknowledged."""
    name, given = run["run_id"], journal.inputs[run["run_id"]]
    if run["status"] != status_of(given):
        yield f"run {name} is {run['status']}, the model {status_of(given)}: {run['error']}"
    steps: Sequence[Body] = run["steps"]
    numbers = [step["number"] for step in steps]
    if numbers != list(range(1, len(steps) + 1)):
        yield f"run {name} has the steps {numbers}"
    taken = [Taken(step["id"], step["kind"], step["visit"], step["status"]) for step in steps]
    if not _is_like(taken, steps_of(given)):
        yield f"run {name} took {taken}, the model {steps_of(given)}"
    for step in steps:
        accepted = journal.reports.get((name, step["number"]))
        if accepted is None:
            continue  # a report whose agent died, or a step that nobody reports
        attempt, body = accepted
        if step["attempt"] != attempt:
            yield f"run {name}, step {step['number']}: attempt {attempt} was accepted, it has {step['attempt']}"
        if (step["output"], step["error"] or None) != (body.get("output"), body.get("error") or _earlier(name, step)):
            yield f"run {name}, step {step['number']}: {body} was accepted, it has {step}"


def _earlier(run_id: str, step: Body) -> str | None:
    """Return the error that an attempt before the accepted one left."""
    return step["error"] if step["id"] == "draft" and fails_once(run_id) else None


def _is_like(found: Sequence[Taken], model: Sequence[Taken]) -> bool:
    """Return whether the steps are the model's, up to the order of the two branches."""
    if sorted(found) != sorted(model):
        return False
    for branch in (("left",), ("right", "after")):
        alone = [[step for step in steps if step.id in branch] for steps in (found, model)]
        if alone[0] != alone[1]:
            return False
    inner = ("left", "right", "after")
    outer = [[step for step in steps if step.id not in inner] for steps in (found, model)]
    return outer[0] == outer[1]


def check_run_feed(run_id: str, given: Body, entries: Sequence[Entry]) -> Iterator[str]:
    bodies = [entry.body for entry in entries if entry.body["entity"] == "run" and entry.body["key"] == run_id]
    expected = changes_of(given)
    yield from in_order(f"run {run_id}", (body["version"] for body in bodies), range(1, len(expected) + 1))
    if [body["operation"] for body in bodies] != expected:
        yield f"feed of run {run_id}: {[body['operation'] for body in bodies]}, the model {expected}"


def check_session(held: Held, runs: Mapping[str, Body], journal: Journal) -> Iterator[str]:
    """Check that the session has the result of each step of its runs once, and their last values as its state."""
    told: dict[str, list[Body]] = defaultdict(list)
    state: Body = {}
    for place, event in enumerate(held.events, 1):
        if event["sequence"] != place:
            yield f"session: event {place} has the sequence {event['sequence']}"
        told[event["metadata"]["run_id"]].append(event)
        state |= event["state_delta"] or {}
    if held.state != state:
        yield f"session: its state is {held.state}, its events make {state}"
    for run_id in told.keys() - journal.sessions:
        yield f"session: it has events of run {run_id}"
    for run_id in journal.sessions:
        steps = [
            (event_type(Taken(step["id"], step["kind"], step["visit"], step["status"])), step)
            for step in runs[run_id]["steps"]
        ]
        expected = [(type, step["error"] if step["status"] == "failed" else step["output"]) for type, step in steps]
        found = [(event["type"], event["content"]) for event in told[run_id]]
        if sorted(map(str, found)) != sorted(str(each) for each in expected if each[0] is not None):
            yield f"session: run {run_id} has the events {found}, its steps make {expected}"
        types = [type for type, _ in found if type not in ("left", "right", "after")]
        wanted = [type for type, _ in expected if type not in (None, "left", "right", "after")]
        if types != wanted:
            yield f"session: the events of run {run_id} have the order {types}, its steps {wanted}"


def check_memories(histories: Mapping[str, Sequence[Body]], runs: Mapping[str, Body]) -> Iterator[str]:
    """Check that each task wrote its memory once, as the version that it reported."""
    versions: dict[tuple[str, int], list[int]] = defaultdict(list)
    for key, history in histories.items():
        if [each["version"] for each in history] != list(range(1, len(history) + 1)):
            yield f"memory {key}: its versions are {[each['version'] for each in history]}"
        for each in history:
            versions[each["value"]["run_id"], each["value"]["number"]].append(each["version"])
    for run_id, run in runs.items():
        for step in run["steps"]:
            if step["kind"] not in ("task", "compensation"):
                continue
            written = versions.pop((run_id, step["number"]), [])
            if len(written) != 1:
                yield f"memory {key_of(run_id, step['number'])}: {run_id}, step {step['number']} wrote {written}"
            elif step["status"] == "completed" and step["output"]["version"] != written[0]:
                yield f"run {run_id}, step {step['number']}: it reported {step['output']}, and wrote {written}"
    for place in versions:
        yield f"a memory was written by {place}, which is no step"


def check_memory_feed(histories: Mapping[str, Sequence[Body]], entries: Sequence[Entry]) -> Iterator[str]:
    for key, history in histories.items():
        told = [entry.body for entry in entries if entry.body["entity"] == "memory" and entry.body["key"] == key]
        yield from in_order(f"memory {key}", (body["version"] for body in told), range(1, len(history) + 1))


async def _check_agents(asking: Asking, journal: Journal, entries: Sequence[Entry]) -> list[str]:
    told = steps_by_cycle(entries)
    found: list[str] = []
    for number in range(AGENTS):
        agent_id = f"agent-{number}"
        sent: list[Sent] = [each for each in journal.sent if each.place == agent_id]
        cycles = await read_items(asking, "cycles", agent_id)
        found += check_cycles(agent_id, cycles, sent)
        found += check_feed(agent_id, cycles, told)
    return found
