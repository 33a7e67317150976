"""Compares cycles, records and the feed with the acknowledgements. A finding names the agent and the cycle."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from nats.aio.client import Client

from ..asking import Asking
from ..feed import Entry, in_order, read_feed
from ..journal import Journal, Sent
from .load import output_of

STEPS = ("begun", "proposed", "completed")
_REACHED = {"cycle_begin": 1, "propose": 2, "complete": 3}


async def verify(client: Client, journal: Journal) -> list[str]:
    asking = Asking(client, "agents")
    sent: dict[str, list[Sent]] = defaultdict(list)
    for each in journal.sent:
        sent[each.place].append(each)
    told = steps_by_cycle(await read_feed(client))
    found: list[str] = []
    for agent_id, writes in sent.items():
        cycles = await read_items(asking, "cycles", agent_id)
        found += check_cycles(agent_id, cycles, writes)
        found += check_feed(agent_id, cycles, told)
        found += check_records(agent_id, await read_items(asking, "records", agent_id), writes)
    return found


async def read_items(asking: Asking, operation: str, agent_id: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        page = await asking.request(operation, {"agent_id": agent_id} | ({"cursor": cursor} if cursor else {}))
        items += page["items"]
        cursor = page["cursor"]
        if cursor is None:
            return items


def check_cycles(agent_id: str, cycles: Sequence[dict[str, Any]], sent: Sequence[Sent]) -> Iterator[str]:
    """Check that the cycles have no gap, that all but the last have ended, and that no acknowledged step is missing."""
    numbers = [cycle["number"] for cycle in cycles]
    if numbers != list(range(1, len(cycles) + 1)):
        yield f"{agent_id}: the cycles are {numbers}"
    for cycle in cycles:
        name = f"{agent_id}, cycle {cycle['number']}"
        if cycle["status"] != "completed":
            if cycle["number"] != len(cycles):
                yield f"{name} is {cycle['status']}, and not the last one"
        elif cycle["result"]["output"] != output_of(agent_id, cycle["number"]):
            yield f"{name} has the output {cycle['result']['output']!r}"
    reached = {cycle["number"]: STEPS.index(cycle["status"]) + 1 for cycle in cycles}
    for each in sent:
        wanted = _REACHED.get(each.kind)
        if each.answer is not None and wanted is not None and reached.get(each.number, 0) < wanted:
            yield f"{each.id} was acknowledged, and the cycle is only at step {reached.get(each.number, 0)}"


def steps_by_cycle(entries: Sequence[Entry]) -> dict[tuple[str, str], list[dict[str, Any]]]:
    told: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for entry in entries:
        if entry.body["entity"] == "cycle":
            told[entry.body["namespace"], entry.body["key"]].append(entry.body)
    return told


def check_feed(
    agent_id: str, cycles: Sequence[dict[str, Any]], told: dict[tuple[str, str], list[dict[str, Any]]]
) -> Iterator[str]:
    for cycle in cycles:
        bodies = told.get((agent_id, str(cycle["number"])), [])
        name = f"{agent_id}, cycle {cycle['number']}"
        last = STEPS.index(cycle["status"]) + 1
        yield from in_order(name, (body["version"] for body in bodies), range(1, last + 1))
        steps = tuple(body["operation"] for body in bodies)
        if steps != STEPS[:last]:
            yield f"feed {name}: it is told as {steps}"


def check_records(agent_id: str, records: Sequence[dict[str, Any]], sent: Sequence[Sent]) -> Iterator[str]:
    found = [record["content"] for record in records]
    expected = [each.body["content"] for each in sent if each.kind == "record" and each.answer is not None]
    for content in set(found) | set(expected):
        if found.count(content) != expected.count(content):
            times = found.count(content), expected.count(content)
            yield f"{agent_id}: record {content!r} is there {times[0]} times, {times[1]} were acknowledged"
