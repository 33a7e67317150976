"""The changes that each record announces on the feed. Event changes are numbered by sequence, session changes by
revision."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from hivemem_contracts.identifiers import format_microseconds
from hivemem_contracts.subjects import Address, change_subject
from hivemem_runtime.ledger.entity import Announcement, Stamp

if TYPE_CHECKING:
    from hivemem_sessions.entities.sessions import SessionRecord
    from hivemem_sessions.entities.state import ScopeRecord


def announce_session(record: "SessionRecord", stamp: Stamp) -> tuple[Announcement, ...]:
    """Return the changes of one record. A delta sent with an event is part of the event's change; status changes and
    other deltas are session changes."""
    found: list[Announcement] = []
    if record.event is not None and record.sequence is not None:
        found.append(_event(record, stamp, record.sequence))
    if record.opening is not None:
        found.append(_session(record.kind, stamp, opened(record.opening, stamp)))
    elif record.status == "archived":
        found.append(_session("archived", stamp, _status(record)))
    elif record.status is not None:
        found.append(_session("status_changed", stamp, _status(record)))
    elif record.kind == "updated":
        changed = {"metadata": record.metadata, "project_id": record.project_id}
        found.append(_session("updated", stamp, {name: value for name, value in changed.items() if value is not None}))
    elif record.kind == "state":
        value = {"state_delta": record.delta or {}, "state_nulls": record.nulls}
        found.append(_session("state_changed", stamp, value))
    return tuple(found)


def require_announceable(tenant: str, session_id: str, scopes: Iterable[str]) -> None:
    """Raise `TooLarge` for ids whose changes would exceed the subject limit, because every write must be announced."""
    change_subject(tenant, "session", Address((session_id,)))
    for scope in scopes:
        change_subject(tenant, "state", _scope_address(scope))


def _scope_address(scope: str) -> Address:
    kind, _, id = scope.partition(":")
    return Address((kind, id))


def announce_scope(record: "ScopeRecord", stamp: Stamp) -> tuple[Announcement, ...]:
    value = {"state_delta": record.delta, "state_nulls": record.nulls, "session_id": record.session_id}
    previous = stamp.version - 1 or None
    return (Announcement("state", "changed", _scope_address(stamp.id), stamp.id, stamp.version, previous, value),)


def event_value(record: "SessionRecord", at: int) -> dict[str, Any]:
    """Return the wire format of the event in a record."""
    event = record.event or {}
    return {
        "event_id": event["event_id"],
        "sequence": record.sequence,
        "type": event["type"],
        "author": event["author"],
        "content": event["content"],
        "state_delta": record.delta,
        "state_nulls": record.nulls,
        "metadata": event["metadata"],
        "parent_id": event["parent_id"],
        "occurred_at": event.get("occurred_at"),
        "at": format_microseconds(at),
    }


def opened(opening: dict[str, Any], stamp: Stamp) -> dict[str, Any]:
    """Return the wire format of a new session, without the shared scopes, which have changes of their own."""
    at = format_microseconds(stamp.at)
    machine = opening.get("machine")
    return {
        "session_id": stamp.id,
        "app_name": opening["app_name"],
        "user_id": opening["user_id"],
        "project_id": opening["project_id"],
        "status": opening["status"],
        "state": opening["state"],
        "metadata": opening["metadata"],
        "revision": stamp.version,
        "event_count": opening["event_count"],
        "created_at": at,
        "updated_at": at,
        "terminated_at": None,
        "archived_at": None,
        "machine": machine_value(machine) if machine else None,
        "forked_from": opening.get("origin"),
    }


def machine_value(machine: dict[str, Any]) -> dict[str, Any]:
    """Return the wire format of a session's machine: its state and the events it allows, without the definition."""
    transitions = machine["definition"]["transitions"]
    allowed = sorted({arrow["event"] for arrow in transitions if arrow["from"] == machine["state"]})
    return {
        "name": machine["name"],
        "version": machine["version"],
        "state": machine["state"],
        "allowed": allowed,
    }


def _event(record: "SessionRecord", stamp: Stamp, sequence: int) -> Announcement:
    value = event_value(record, stamp.at)
    return Announcement("event", "appended", Address((stamp.id,)), stamp.id, sequence, sequence - 1 or None, value)


def _session(operation: str, stamp: Stamp, value: dict[str, Any]) -> Announcement:
    previous = stamp.version - 1 or None
    return Announcement("session", operation, Address((stamp.id,)), stamp.id, stamp.version, previous, value)


def _status(record: "SessionRecord") -> dict[str, Any]:
    return {
        "status": record.status,
        "previous_status": record.previous_status,
        "state_delta": record.delta if record.event is None else None,
    }
