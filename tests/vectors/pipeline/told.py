"""Changes of sessions as a reaction gets them."""

from datetime import UTC, datetime
from typing import Any

from hivemem_contracts.changes import Change
from hivemem_runtime.bus.reactions.runner import ReceivedChange


def received(change: Change) -> ReceivedChange:
    return ReceivedChange(change, "", 1, 1, {})


def session_told(
    tenant: str, session_id: str, operation: str, value: dict[str, Any] | None, *, version: int = 1
) -> ReceivedChange:
    """Return a change of a session from long ago."""
    return received(
        Change(
            entity="session",
            operation=operation,
            tenant=tenant,
            namespace=session_id,
            version=version,
            value=value,
            actor="bot",
            at=datetime(2020, 1, 1, 0, 0, version, tzinfo=UTC),
        )
    )


def event_told(tenant: str, session_id: str, event_id: str, sequence: int, content: Any) -> ReceivedChange:
    """Return a change of an event from now."""
    at = datetime.now(UTC)
    value: dict[str, Any] = {
        "event_id": event_id,
        "sequence": sequence,
        "type": "said",
        "author": "bot",
        "content": content,
        "state_delta": None,
        "metadata": {},
        "parent_id": None,
        "at": at.isoformat(),
    }
    return received(
        Change(
            entity="event",
            operation="appended",
            tenant=tenant,
            namespace=session_id,
            version=sequence,
            value=value,
            actor="bot",
            at=at,
        )
    )
