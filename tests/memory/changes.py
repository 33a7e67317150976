"""Changes of another service, announced as that service announces them."""

from datetime import UTC, datetime
from typing import Any

import orjson
from nats.aio.client import Client

from hivemem_contracts.changes import Change
from hivemem_contracts.subjects import Address
from hivemem_testing.feed import announced


async def tell_session(
    client: Client,
    tenant: str,
    session_id: str,
    operation: str,
    value: Any = None,
    *,
    version: int = 1,
    actor: str = "owner",
    cause: str | None = "m1",
    at: datetime | None = None,
) -> None:
    """Announce a change of a session; it is on the feed on return."""
    change = Change(
        entity="session",
        operation=operation,
        tenant=tenant,
        namespace=session_id,
        version=version,
        previous_version=version - 1 or None,
        value=value,
        actor=actor,
        cause=cause,
        at=at or datetime.now(UTC),
    )
    subject, body, headers = await announced(client, change, Address((session_id,)))
    answer = await client.request(subject, body, timeout=10, headers=headers)
    assert orjson.loads(answer.data).keys().isdisjoint({"error", "duplicate"}), answer.data


async def terminate(client: Client, tenant: str, session_id: str, **fields: Any) -> None:
    value = {"status": "terminated", "previous_status": "active", "state_delta": None}
    await tell_session(client, tenant, session_id, "status_changed", value, **fields)


async def delete(client: Client, tenant: str, session_id: str, **fields: Any) -> None:
    await tell_session(client, tenant, session_id, "deleted", **fields)
