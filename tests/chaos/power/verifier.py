"""Compares the ledger with the acknowledgements, and the feed, its readers and the audit with the ledger."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from nats.aio.client import Client

from hivemem import Hive

from ..asking import AGENT, Asking
from ..journal import Sent
from ..memory.held import Body, read_history, verify_audit
from ..sessions.verifier import read_session
from .follower import Address, Follower, Versions, name_of, spans
from .journal import Journal
from .load import BULK, BULK_EVENTS, KEYS, NAMESPACE, SESSIONS, bulk_id

COMPLETE_SECONDS: Final = 25.0
"""The longest time without progress before a reader that lacks versions of the ledger is a finding."""
_POLL_SECONDS: Final = 0.1

Expected = dict[Address, Versions]
Links = dict[tuple[str, int], str]
"""The message id of each key and version."""


@dataclass(frozen=True)
class Verifier:
    client: Client
    hive: Hive
    journal: Journal
    followers: Sequence[Follower]

    async def verify(self) -> list[str]:
        expected, found = await self.read_ledger()
        fresh = Follower(self.hive, "from the start")
        fresh.start()
        try:
            awake = [fresh, *(follower for follower in self.followers if follower.awake)]
            lacking = await _compared(awake, expected)
        finally:
            await fresh.stop()
        found += [*self.journal.findings, *lacking, *(what for each in awake for what in each.findings)]
        return found or await self.check_audit(expected)

    async def read_ledger(self) -> tuple[Expected, list[str]]:
        """Return the content of each address, and the acknowledged writes that are missing."""
        expected: Expected = {
            ("event", BULK, ""): {number: bulk_id(number) for number in range(1, BULK_EVENTS + 1)},
            ("session", BULK, ""): {1: "created", 2: "status_changed"},
        }
        found: list[str] = []
        sessions, memory = Asking(self.client, "sessions"), Asking(self.client, "memory", AGENT)
        for session in SESSIONS:
            held = await read_session(sessions, session)
            versions = {event["sequence"]: event["event_id"] for event in held.events}
            expected["event", session, ""] = versions
            expected["session", session, ""] = {1: "created"} | ({2: "status_changed"} if versions else {})
            found += self._check_kept(("event", session, ""), versions, self.journal.of(session), "sequence")
        for key in KEYS:
            history = await read_history(memory, NAMESPACE, key)
            versions = {version["version"]: version["request_id"] for version in history}
            expected["memory", NAMESPACE, key] = versions
            found += self._check_kept(("memory", NAMESPACE, key), versions, self.journal.of(key), "version")
        return expected, found

    def _check_kept(self, address: Address, versions: Versions, sent: Sequence[Sent], field: str) -> Iterator[str]:
        name = name_of(address)
        if sorted(versions) != list(range(1, len(versions) + 1)):
            yield f"{name}: the ledger has the versions {spans(list(versions))}"
        known = {each.id for each in sent}
        for id, count in Counter(versions.values()).items():
            if count > 1 or id not in known:
                yield f"{name}: the ledger has {id} {count} times, {'sent once' if id in known else 'never sent'}"
        for each in sent:
            if each.answer is None or each.id in self.journal.unsure:
                continue
            if versions.get(each.answer[field]) != each.id:
                there = versions.get(each.answer[field])
                yield f"{name}: {each.id} was acknowledged as version {each.answer[field]}, where {there} is"

    async def check_audit(self, expected: Expected) -> list[str]:
        """Check that each version of a memory has a done link, and that the chain verifies."""
        asking = Asking(self.client, "memory", AGENT)
        wanted: Links = {
            (key, version): id for key in KEYS for version, id in expected["memory", NAMESPACE, key].items()
        }

        async def look() -> list[str]:
            return list(_check_links(wanted, await _read_links(asking)))

        found = await _left_over(look)
        answer = await verify_audit(asking)
        if not answer["ok"]:
            found.append(f"audit: link {answer['broken_at']} is broken: {answer['problem']}")
        return found


async def _compared(followers: Sequence[Follower], expected: Expected) -> list[str]:
    async def look() -> list[str]:
        return [what for follower in followers for what in follower.compare(expected)]

    return await _left_over(look)


async def _left_over(look: Callable[[], Awaitable[list[str]]]) -> list[str]:
    """Return the findings once they have not changed for long, since a busy machine may need more time."""
    found, since = await look(), time.monotonic()
    while found and time.monotonic() - since < COMPLETE_SECONDS:
        await asyncio.sleep(_POLL_SECONDS)
        before, found = found, await look()
        if found != before:
            since = time.monotonic()
    return found


async def _read_links(asking: Asking) -> list[Body]:
    links: list[Body] = []
    body: Body = {"namespace": NAMESPACE, "limit": 1_000}
    while True:
        page = await asking.request("audit", body, seconds=5)
        links += [link for link in page["items"] if link["outcome"] == "done"]
        if page["cursor"] is None:
            return links
        body["cursor"] = page["cursor"]


def _check_links(wanted: Links, links: Sequence[Body]) -> Iterator[str]:
    counts = Counter((link["key"], link["to_version"]) for link in links)
    for key in KEYS:
        versions = [version for of, version in wanted if of == key]
        none = [version for version in versions if not counts[key, version]]
        if none:
            yield f"audit {key}: no link tells of the versions {spans(none)} of {len(versions)}"
        twice = [version for version in versions if counts[key, version] > 1]
        if twice:
            yield f"audit {key}: more than one link tells of the versions {spans(twice)}"
        beyond = [version for of, version in counts if of == key and (of, version) not in wanted]
        if beyond:
            yield f"audit {key}: links tell of the versions {spans(beyond)}, the ledger ends at {len(versions)}"
    for link in links:
        id = wanted.get((link["key"], link["to_version"]), link["request_id"])
        if link["request_id"] != id:
            yield f"audit {link['key']}: version {link['to_version']} is linked as {link['request_id']}, it is {id}"
