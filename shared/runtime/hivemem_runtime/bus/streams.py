"""Every stream and bucket of the fleet, declared in one place."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final, cast

import structlog
from nats.aio.client import Client
from pydantic import BaseModel, ConfigDict, Field

from hivemem_contracts.identifiers import new_id
from hivemem_contracts.limits import MESSAGE_BYTES
from hivemem_contracts.streams import (
    BEGUN,
    CHANGES,
    CLAIMS,
    DEAD,
    FEED_EPOCH,
    FEED_KEY,
    INGEST,
    LIVE_PREFIX,
    MEMBERS,
    PURGED,
    PURGED_SUBJECT,
)
from hivemem_runtime.bus.feed.claims import KINDS
from hivemem_runtime.bus.feed.fleet_key import SUBJECT as KEY_SUBJECT
from hivemem_runtime.bus.feed.fleet_key import fingerprint, fleet_key
from hivemem_runtime.bus.jetstream import NANOSECONDS, STREAM_NOT_FOUND, JetStreamRefused, ask

log = structlog.get_logger("hivemem.bus")

MEBIBYTE: Final = 1024 * 1024
DAY_SECONDS: Final = 86_400
COMMANDS: Final = "hive.in.*.*.*.*.*"
"""Five tokens and no more: a stored command has one more in front, its partition, so nobody can publish in that
form and so name a tenant that is not their own."""
COMMAND_BYTES: Final = MESSAGE_BYTES + 65_536
"""The largest body that a worker takes, and as many headers as a stream takes."""
BUCKET_BYTES: Final = 4 * MEBIBYTE
ENTRY_BYTES: Final = 4096
PURGED_BYTES: Final = 16 * MEBIBYTE
PURGED_RECORD_BYTES: Final = 256 * 1024
MEMBERS_SECONDS: Final = 60
"""A living member says so every second, with a shorter life of its own."""
CLAIMS_BYTES: Final = 64 * 1024
BEGINS: Final = "hivemem-begins"
"""In the metadata of CHANGES: what was committed before this moment had left the feed when it was made anew."""
KEY: Final = "hivemem-key"
"""In the metadata of CHANGES: the fingerprint of the key that its messages are signed with."""
SHORTEST_DUPLICATE_WINDOW: Final = NANOSECONDS // 10
CREATE_TRIES: Final = 10
CREATE_AGAIN_SECONDS: Final = 0.05

Config = dict[str, Any]


class StreamConflict(Exception):
    """A stream is there that cannot serve and must not be changed; the text names it and the field."""


class StreamSettings(BaseModel):
    """How much is kept, for how long, and how many times."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    replicas: int = Field(default=1, ge=1, le=5)
    partitions: int = Field(default=8, ge=1, le=64)
    duplicate_window_seconds: float = Field(default=120, ge=1)
    changes_max_age_seconds: int = Field(default=30 * DAY_SECONDS, ge=1)
    changes_max_bytes: int = Field(default=4096 * MEBIBYTE, ge=MEBIBYTE)
    ingest_max_bytes: int = Field(default=1024 * MEBIBYTE, ge=MEBIBYTE)
    dead_max_age_seconds: int = Field(default=30 * DAY_SECONDS, ge=1)
    dead_max_bytes: int = Field(default=256 * MEBIBYTE, ge=MEBIBYTE)


async def declare(
    client: Client,
    settings: StreamSettings,
    *,
    feed: Mapping[str, str] | None = None,
    known_key: bytes | None = None,
) -> None:
    """Create what is missing and update what differs. Raises `StreamConflict`; safe to run at every start.

    `feed` is the metadata of CHANGES if it has to be created. `known_key` restores the fleet's key in a bucket that
    lost it."""
    buckets = (_members(settings), _begun(settings), _claims(settings), _feed_key(settings), _purged(settings))
    for wanted in (_ingest(settings), _dead(settings), *buckets):
        await _declare(client, wanted)
    if feed is None:
        feed = {FEED_EPOCH: f"1-{new_id()[-6:].lower()}", KEY: fingerprint(await fleet_key(client, known_key))}
    await _declare(client, _changes(settings), feed)


def _ingest(settings: StreamSettings) -> Config:
    tokens = ".".join(f"{{{{wildcard({place})}}}}" for place in range(1, 6))
    return {
        "name": INGEST,
        "subjects": [COMMANDS],
        "retention": "workqueue",
        "storage": "file",
        # A full stream refuses the publisher, who can wait; discarding the old would lose what it was promised.
        "discard": "new",
        "max_bytes": settings.ingest_max_bytes,
        # What could only become a dead letter would push out as many bytes of other dead letters.
        "max_msg_size": COMMAND_BYTES,
        "num_replicas": settings.replicas,
        # Deduplication here would be by id alone, over all tenants; the ledger does it per agent and operation.
        "duplicate_window": SHORTEST_DUPLICATE_WINDOW,
        # Many commands published at once are one batch, and one `fsync` where each is on the disk before it counts.
        "allow_atomic": True,
        # The tenant and the route decide the partition, so that what needs an order has one consumer.
        "subject_transform": {
            "src": COMMANDS,
            "dest": f"hive.in.{{{{partition({settings.partitions},1,5)}}}}.{tokens}",
        },
    }


def _changes(settings: StreamSettings) -> Config:
    return {
        "name": CHANGES,
        "subjects": ["hive.chg.>"],
        "retention": "limits",
        "storage": "file",
        "discard": "old",
        "max_age": settings.changes_max_age_seconds * NANOSECONDS,
        "max_bytes": settings.changes_max_bytes,
        "num_replicas": settings.replicas,
        "duplicate_window": _window(settings.duplicate_window_seconds, settings.changes_max_age_seconds),
        "allow_direct": True,
        "allow_atomic": True,
        "republish": {"src": "hive.chg.>", "dest": f"{LIVE_PREFIX}.>"},
    }


def _dead(settings: StreamSettings) -> Config:
    return {
        "name": DEAD,
        "subjects": ["hive.dead.>"],
        "retention": "limits",
        "storage": "file",
        "discard": "old",
        "max_age": settings.dead_max_age_seconds * NANOSECONDS,
        "max_bytes": settings.dead_max_bytes,
        "num_replicas": settings.replicas,
        "duplicate_window": _window(settings.duplicate_window_seconds, settings.dead_max_age_seconds),
        "allow_direct": True,
    }


def _members(settings: StreamSettings) -> Config:
    """A key-value bucket as its protocol lays it out. In a file: one in memory is gone after the server's restart."""
    return _bucket(MEMBERS, settings) | {"max_age": MEMBERS_SECONDS * NANOSECONDS, "allow_msg_ttl": True}


def _begun(settings: StreamSettings) -> Config:
    return _bucket(BEGUN, settings) | {"max_age": DAY_SECONDS * NANOSECONDS}


def _bucket(name: str, settings: StreamSettings) -> Config:
    return {
        "name": f"KV_{name}",
        "subjects": [f"$KV.{name}.>"],
        "retention": "limits",
        "storage": "file",
        # A flood of entries pushes out older ones: what is true is said again, and nobody is refused.
        "discard": "old",
        "max_bytes": BUCKET_BYTES,
        "max_msg_size": ENTRY_BYTES,
        "max_msgs_per_subject": 1,
        "num_replicas": settings.replicas,
        "duplicate_window": NANOSECONDS,
        "allow_direct": True,
        "allow_rollup_hdrs": True,
        "deny_delete": True,
    }


def _purged(settings: StreamSettings) -> Config:
    return {
        "name": f"KV_{PURGED}",
        "subjects": [PURGED_SUBJECT],
        "retention": "limits",
        "storage": "file",
        # A record that is gone too early would make a purge look like a loss.
        "discard": "new",
        "max_age": (settings.changes_max_age_seconds + DAY_SECONDS) * NANOSECONDS,
        "max_bytes": PURGED_BYTES,
        "max_msg_size": PURGED_RECORD_BYTES,
        "num_replicas": settings.replicas,
        "duplicate_window": NANOSECONDS,
        "deny_delete": True,
        "deny_purge": True,
    }


def _claims(settings: StreamSettings) -> Config:
    """A key-value bucket, too: the newest value of each claim. It has no other entries, so nobody can fill it."""
    return {
        "name": f"KV_{CLAIMS}",
        "subjects": [f"$KV.{CLAIMS}.{what}" for what in KINDS],
        "retention": "limits",
        "storage": "file",
        "discard": "new",
        "max_bytes": CLAIMS_BYTES,
        "max_msg_size": ENTRY_BYTES,
        "max_msgs_per_subject": 1,
        "num_replicas": settings.replicas,
        "duplicate_window": NANOSECONDS,
        "deny_delete": True,
    }


def _feed_key(settings: StreamSettings) -> Config:
    """One entry that cannot be replaced. Acknowledgements of the server go to any subject that a publisher names."""
    return {
        "name": f"KV_{FEED_KEY}",
        "subjects": [KEY_SUBJECT],
        "retention": "limits",
        "storage": "file",
        "discard": "new",
        "discard_new_per_subject": True,
        "max_bytes": ENTRY_BYTES,
        "max_msgs_per_subject": 1,
        "num_replicas": settings.replicas,
        "duplicate_window": NANOSECONDS,
        "deny_delete": True,
        "deny_purge": True,
    }


def _window(wanted_seconds: float, max_age_seconds: int) -> int:
    """The server wants a duplicate window that is not longer than the messages live."""
    return int(min(wanted_seconds, max_age_seconds) * NANOSECONDS)


async def _declare(client: Client, wanted: Config, metadata: Mapping[str, str] | None = None) -> None:
    """`metadata` is for a stream that has to be created; of one that is there, it stays as it is."""
    name = str(wanted["name"])
    created = wanted if metadata is None else {**wanted, "metadata": dict(metadata)}
    found = await _find(client, name) or await _create(client, name, created)
    existing: Config = found["config"]
    differing = {field for field, value in wanted.items() if not _same(existing.get(field), value)}
    if not differing:
        return
    _refuse_what_must_stay(name, existing, wanted, differing, stored=int(found["state"]["messages"]))
    await _send(client, f"STREAM.UPDATE.{name}", name, existing | wanted, differing)
    log.info("stream updated", stream=name, fields=sorted(differing))


async def _find(client: Client, name: str) -> dict[str, Any] | None:
    try:
        return await ask(client, f"STREAM.INFO.{name}")
    except JetStreamRefused as error:
        if error.code != STREAM_NOT_FOUND:
            raise
        return None


async def _create(client: Client, name: str, wanted: Config) -> dict[str, Any]:
    """Tried a few times. While another worker creates it too, the server reserves room twice and may find too little;
    and while it still removes one of the same name, it cannot make the new one's files."""
    refused: JetStreamRefused | None = None
    for turn in range(CREATE_TRIES):
        if turn:
            await asyncio.sleep(CREATE_AGAIN_SECONDS)
            found = await _find(client, name)
            if found is not None:
                return found
        try:
            created = await ask(client, f"STREAM.CREATE.{name}", wanted)
        except JetStreamRefused as error:
            refused = error
        else:
            log.info("stream created", stream=name)
            return await _kept(client, name, wanted) if created["state"]["last_seq"] else created
    reason = refused.description if refused else "no reason given"
    raise StreamConflict(f"stream {name} cannot be created: {reason}") from refused


async def _kept(client: Client, name: str, wanted: Config) -> dict[str, Any]:
    """Keep a stream that the server created from old blocks, because its own description of them was damaged.

    Such a stream is gone again at the next start unless it is changed. The feed is created empty instead: the ledgers
    announce again what it had."""
    log.error("a stream was found without its description", stream=name)
    if name == CHANGES:
        await ask(client, f"STREAM.DELETE.{name}")
        return await ask(client, f"STREAM.CREATE.{name}", wanted)
    return await ask(client, f"STREAM.UPDATE.{name}", wanted | {"description": "found without its description"})


async def _send(client: Client, subject: str, name: str, config: Config, differing: set[str]) -> None:
    try:
        await ask(client, subject, config)
    except JetStreamRefused as error:
        fields = ", ".join(sorted(differing))
        raise StreamConflict(f"stream {name}: {fields} cannot be changed: {error.description}") from error


def _refuse_what_must_stay(
    name: str, existing: Mapping[str, Any], wanted: Config, differing: set[str], *, stored: int
) -> None:
    fixed = ["retention", "storage", "subjects"]
    if stored:
        # Commands that wait keep their partition, later ones of the same route would get another and overtake them.
        fixed.append("subject_transform")
    for field in fixed:
        if field in differing:
            reason = " while commands wait in it" if field == "subject_transform" else ""
            raise StreamConflict(
                f"stream {name}: its {field} is {existing.get(field)!r}, and Hivemem needs {wanted[field]!r}; "
                f"it is not changed{reason}"
            )


def _same(existing: Any, wanted: Any) -> bool:
    """The server leaves out what is false, and adds fields of its own inside of objects."""
    if isinstance(wanted, dict) and isinstance(existing, dict):
        found = cast("Config", existing)
        return all(_same(found.get(field), value) for field, value in cast("Config", wanted).items())
    return bool(existing == wanted) or (not existing and not wanted)
