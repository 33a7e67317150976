"""Compares the index with the memory service. A finding names the namespace and the key."""

import asyncio
import time
from collections import defaultdict
from typing import Any, Final

from nats.aio.client import Client

from ..asking import AGENT, Asking
from ..feed import in_order, read_dead_letters, read_feed
from ..memory.journal import Journal

_CAUGHT_UP_SECONDS: Final = 120.0
_POLL_SECONDS: Final = 0.1
_SECONDS: Final = 30.0
"""Time for a sweep, which looks twice, or for a recall that waits for a model to load."""

Body = dict[str, Any]
Place = tuple[str, str]


async def verify(client: Client, journal: Journal) -> list[str]:
    memories, vectors = Asking(client, "memory", AGENT), Asking(client, "vectors", AGENT)
    overview = await caught_up(vectors)
    if overview["failed"] or overview["pending"] or overview["stale"] or overview["waiting"]:
        return [f"the index never caught up: {overview}"]
    held = await living(memories)
    found = await check_statuses(vectors, held)
    for place in {(sent.body["namespace"], sent.body["key"]): None for sent in journal.sent}:
        found += await check_found(vectors, place, journal, held.get(place))
    found += await check_points(vectors)
    found += await check_feed(client)
    found += [f"a dead letter: {entry.subject}: {entry.body}" for entry in await read_dead_letters(client)]
    return found


async def caught_up(vectors: Asking) -> Body:
    until = time.monotonic() + _CAUGHT_UP_SECONDS
    while True:
        overview = await vectors.request("overview", {}, seconds=_SECONDS)
        behind = sum(overview[name] for name in ("waiting", "pending", "stale", "failed"))
        if not behind or time.monotonic() > until:
            return overview
        await asyncio.sleep(_POLL_SECONDS)


async def living(memories: Asking) -> dict[Place, Body]:
    answer = await memories.request("list", {"prefix": "user", "limit": 1_000}, seconds=_SECONDS)
    return {(memory["namespace"], memory["key"]): memory for memory in answer["items"]}


async def check_statuses(vectors: Asking, held: dict[Place, Body]) -> list[str]:
    answer = await vectors.request("status", {"limit": 1_000}, seconds=_SECONDS)
    said = {(item["namespace"], item["key"]): item for item in answer["items"]}
    found = [f"{place} is in the index and lives no more: {said[place]}" for place in said.keys() - held.keys()]
    for place, memory in held.items():
        status = said.get(place)
        if status is None:
            found.append(f"{place}: the index knows nothing of it, its version is {memory['version']}")
        elif (status["state"], status["version"], status["indexed_version"]) != ("synced", *(memory["version"],) * 2):
            found.append(f"{place}: its version is {memory['version']}, the index says {status}")
    return found


async def check_found(vectors: Asking, place: Place, journal: Journal, memory: Body | None) -> list[str]:
    """Check that a memory is found by its present text, and not by its former texts."""
    namespace, key = place
    if memory is not None:
        answer = await recalled(vectors, memory["value"], namespace)
        matching = [item for item in answer["items"] if item["key"] == key]
        if answer["degraded"] is not None:
            return [f"{place}: the answer is degraded: {answer['degraded']}"]
        if [(item["version"], item["value"]) for item in matching] != [(memory["version"], memory["value"])]:
            return [f"{place}: at version {memory['version']} it says {memory['value']!r}, found is {matching}"]
        return []
    said = [sent.body["value"] for sent in journal.sent if _place(sent.body) == place and "value" in sent.body]
    answer = await recalled(vectors, said[-1], namespace)
    return [f"{place}: it is gone, and found: {item}" for item in answer["items"] if item["key"] == key]


async def recalled(vectors: Asking, text: str, namespace: str) -> Body:
    return await vectors.request("recall", {"query": text, "namespace_prefix": namespace}, seconds=_SECONDS)


async def check_points(vectors: Asking) -> list[str]:
    """Check that no point is missing. A killed worker may leave extra points, which one sweep removes."""
    first = await sweep(vectors, dry_run=True)
    found = [f"the index lacks {first['missing']} of {first['checked']}"] if first["missing"] else []
    await sweep(vectors, dry_run=False)
    again = await sweep(vectors, dry_run=True)
    if again["missing"] or again["left_over"]:
        found.append(f"after a sweep that followed {first}, there still is: {dict(again)}")
    return found


async def sweep(vectors: Asking, *, dry_run: bool) -> dict[str, int]:
    sums: dict[str, int] = defaultdict(int)
    cursor: str | None = None
    while True:
        body: Body = {"dry_run": dry_run} if cursor is None else {"dry_run": dry_run, "cursor": cursor}
        page = await vectors.request("sweep", body, seconds=_SECONDS)
        for name in ("checked", "missing", "left_over"):
            sums[name] += page[name]
        cursor = page["cursor"]
        if cursor is None:
            return sums


async def check_feed(client: Client) -> list[str]:
    told: dict[str, list[int]] = defaultdict(list)
    for entry in await read_feed(client):
        if entry.body["entity"] == "index":
            told[entry.subject].append(entry.body["version"])
    found: list[str] = []
    for subject, versions in told.items():
        found += in_order(subject, versions, range(1, max(versions) + 1))
    return found


def _place(body: Body) -> Place:
    return body["namespace"], body["key"]
