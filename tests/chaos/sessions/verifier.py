"""Compares the content of the fleet with its acknowledgements. Each finding names the session and the version."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

from nats.aio.client import Client

from ..asking import TENANT, Asking, Refused
from ..feed import Entry, in_order, read_feed
from ..journal import Sent
from .journal import Journal
from .load import EVENTS_OF_A_LIFE

_PAGE: Final = 500

Event: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Held:
    """One session as the fleet answers it."""

    id: str
    revision: int
    events: Sequence[Event]
    state: Mapping[str, Any]


async def verify(client: Client, journal: Journal) -> list[str]:
    asking = Asking(client, "sessions")
    entries = await read_feed(client)
    feed: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        feed[entry.subject].append(entry)
    found: list[str] = []
    user_writes: dict[str, int] = defaultdict(int)
    user_states: dict[str, Any] = {}
    for session, user in journal.users.items():
        held = await read_session(asking, session)
        sent = journal.of(session)
        user_writes[user] += sum("user:last" in (event["state_delta"] or {}) for event in held.events)
        user_states[user] = held.state.get("user:last")
        found += check_events(held, sent)
        found += check_answers(held, sent)
        found += check_state(held, sent)
        found += check_event_feed(held, feed.pop(f"hive.chg.{TENANT}.event.{session}", []))
        found += check_session_feed(held, sent, feed.pop(f"hive.chg.{TENANT}.session.{session}", []))
    for user, writes in user_writes.items():
        entries = feed.pop(f"hive.chg.{TENANT}.state.user.{user}", [])
        found += check_scope_feed(user, writes, user_states[user], entries)
    for session, lives in journal.lives.items():
        events = feed.pop(f"hive.chg.{TENANT}.event.{session}", [])
        found += check_lives(session, lives, events, feed.pop(f"hive.chg.{TENANT}.session.{session}", []))
        found += await check_gone(asking, session)
    found += [
        f"the feed has {len(entries)} changes on {subject}, of which nobody knows" for subject, entries in feed.items()
    ]
    return found


async def read_session(asking: Asking, session: str) -> Held:
    view = await asking.request("get", {"session_id": session})
    events: list[Event] = []
    while True:
        body = {"session_id": session, "after": len(events), "limit": _PAGE}
        page = cast("list[Event]", (await asking.request("events", body))["items"])
        if not page:
            return Held(session, view["session"]["revision"], events, view["session"]["state"])
        events += page


def check_events(held: Held, sent: Sequence[Sent]) -> Iterator[str]:
    """Check that each event appears once, without gaps or extra events, in the order of its writer."""
    expected = {each.id: each for each in sent if each.kind != "state"}
    places: dict[str, int] = {}
    reached: dict[str, int] = defaultdict(int)
    for place, event in enumerate(held.events, 1):
        identity = event["event_id"]
        if event["sequence"] != place:
            yield f"session {held.id}: event {place} has the sequence {event['sequence']}"
        if identity in places:
            yield f"session {held.id}: {identity} is there twice, as {places[identity]} and {place}"
        places[identity] = place
        if identity not in expected:
            yield f"session {held.id}: event {place} is {identity}, which nobody sent"
            continue
        each = expected[identity]
        if each.number <= reached[each.writer]:
            yield f"session {held.id}: event {place} is {identity}, after number {reached[each.writer]} of its writer"
        reached[each.writer] = each.number
    for identity, each in expected.items():
        if each.answer is not None and identity not in places:
            yield f"session {held.id}: {identity} was acknowledged with {each.answer} and is not there"


def check_answers(held: Held, sent: Sequence[Sent]) -> Iterator[str]:
    revisions: dict[int, str] = {}
    for each in sent:
        if each.answer is None or each.durable:
            continue
        revision = each.answer["revision"]
        if revision in revisions:
            yield f"session {held.id}: {each.id} and {revisions[revision]} were both answered revision {revision}"
        revisions[revision] = each.id
        if each.kind == "append":
            sequence: int = each.answer["sequence"]
            there = held.events[sequence - 1]["event_id"] if sequence <= len(held.events) else None
            if there != each.id:
                yield f"session {held.id}: {each.id} was answered sequence {sequence}, where {there} is"


def check_state(held: Held, sent: Sequence[Sent]) -> Iterator[str]:
    """Check that the state is the fold of the events; keys that are set alone have one writer each."""
    states = [each for each in sent if each.kind == "state" and each.answer is not None]
    expected: dict[str, Any] = {each.body["key"]: each.body["value"] for each in states}
    for event in held.events:
        delta = cast("dict[str, Any]", event["state_delta"] or {})
        expected |= {key: value for key, value in delta.items() if not key.startswith("user:")}
    actual = {key: value for key, value in held.state.items() if not key.startswith("user:")}
    for key in sorted(expected.keys() | actual.keys()):
        if expected.get(key) != actual.get(key):
            yield (
                f"session {held.id} at revision {held.revision}: state {key!r} is {actual.get(key)!r}, "
                f"its events make it {expected.get(key)!r}"
            )
    if held.revision != 1 + len(held.events) + len(states):
        yield (
            f"session {held.id}: revision {held.revision}, with {len(held.events)} events and {len(states)} state "
            "writes on top of its creation"
        )


def check_event_feed(held: Held, entries: Sequence[Entry]) -> Iterator[str]:
    subject = f"event.{held.id}"
    yield from in_order(subject, (entry.body["version"] for entry in entries), range(1, len(held.events) + 1))
    for entry in entries:
        version: int = entry.body["version"]
        if version > len(held.events):
            continue
        event, value = held.events[version - 1], entry.body["value"]
        if value["event_id"] != event["event_id"] or value["state_delta"] != event["state_delta"]:
            yield f"feed {subject}: version {version} is {value['event_id']}, the session has {event['event_id']} there"
        if entry.body["previous_version"] != (version - 1 or None):
            yield f"feed {subject}: version {version} has the previous version {entry.body['previous_version']}"


def check_session_feed(held: Held, sent: Sequence[Sent], entries: Sequence[Entry]) -> Iterator[str]:
    """Check that the feed has the creation, the first event (which activates the session), and each state key set
    alone."""
    expected = {each.answer["revision"] for each in sent if each.kind == "state" and each.answer is not None}
    expected |= {1, *(entry.body["version"] for entry in entries if entry.body["operation"] == "status_changed")}
    yield from in_order(f"session.{held.id}", (entry.body["version"] for entry in entries), expected)
    changes = [entry.body["operation"] for entry in entries].count("status_changed")
    if changes != (1 if held.events else 0):
        yield f"feed session.{held.id}: {changes} changes of its status"


def check_scope_feed(user: str, writes: int, value: Any, entries: Sequence[Entry]) -> Iterator[str]:
    subject = f"state.user.{user}"
    yield from in_order(subject, (entry.body["version"] for entry in entries), range(1, writes + 1))
    told = entries[-1].body["value"]["state_delta"]["user:last"] if entries else None
    if told != value:
        yield f"feed {subject}: the last change makes user:last {told!r}, the fleet answers {value!r}"


def check_lives(session: str, lives: int, events: Sequence[Entry], changes: Sequence[Entry]) -> Iterator[str]:
    """Check that the feed has each life once, from its creation to its deletion."""
    told = [entry.body["value"]["event_id"] for entry in events]
    expected = [f"{session}-{life}-{place}" for life in range(1, lives + 1) for place in range(1, EVENTS_OF_A_LIFE + 1)]
    if told != expected:
        yield f"feed event.{session}: {told} in {lives} lives"
    operations = [entry.body["operation"] for entry in changes]
    if operations != ["created", "status_changed", "deleted"] * lives:
        yield f"feed session.{session}: {operations} in {lives} lives"
    versions = [entry.body["version"] for entry in changes]
    if versions != sorted(set(versions)):
        yield f"feed session.{session}: the versions {versions}"


async def check_gone(asking: Asking, session: str) -> list[str]:
    try:
        await asking.request("get", {"session_id": session})
    except Refused as error:
        return [] if "NotFound" in str(error) else [f"session {session}: {error}"]
    return [f"session {session} was deleted and is there"]
