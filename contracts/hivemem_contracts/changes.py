"""A change: the announcement of one committed write, as a CloudEvent in NATS binary mode."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import BaseModel, Field, JsonValue

from hivemem_contracts.identifiers import Time, format_time
from hivemem_contracts.subjects import encode_token

_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


class ChangeEnvelope(BaseModel, frozen=True):
    """What every change says beside its value: what happened to which address, when, and by whom. A reader ignores
    fields of a newer fleet."""

    entity: str = Field(description="The kind of thing that changed, as in the subject.")
    operation: str = Field(description="What happened to it, in the past tense.")
    tenant: str
    namespace: str = Field(description="Its place: a session id, a namespace, or a shared scope such as `user:alice`.")
    key: str | None = Field(default=None, description="The key within the namespace, for entities with keys.")
    version: int = Field(
        description="The version at this address: an event's sequence, a session's revision, a memory's version."
    )
    previous_version: int | None = Field(
        default=None, description="The previous version at this address; null for the first one."
    )
    value_omitted: bool = Field(default=False, description="True if the value was over 64 KiB: read it by request.")
    actor: str = Field(description="The agent that caused it.")
    cause: str | None = Field(default=None, description="The idempotency key of the write.")
    at: Time = Field(description="When it was committed.")


class Change(ChangeEnvelope, frozen=True):
    """What happened to one address, in version order, exactly once per version."""

    value: JsonValue = Field(default=None, description="The new value; null after a deletion.")


@dataclass(frozen=True, slots=True)
class ChangeKind:
    """One kind of change.

    `value` is the model of the change's value, None if the change has no value. `address` names the parts below the
    entity: one token each, except a namespace, which has a token for each segment. The last part follows the key marker
    if `keyed`, and may be left out with the marker if `key_optional`. `starts` lists the possible values of the first
    part, if it is not free text or a namespace.
    """

    entity: str
    operation: str
    value: type[BaseModel] | None
    summary: str
    address: tuple[str, ...]
    keyed: bool = False
    key_optional: bool = False
    starts: tuple[str, ...] = ()

    @property
    def full_name(self) -> str:
        return f"{self.entity}.{self.operation}"


def change_id(tenant: str, entity: str, address_tokens: str, version: int) -> str:
    """Return the id of a change; it is the same for every announcement of the same version."""
    return f"{entity}:{encode_token(tenant)}:{address_tokens}:{version}"


def change_headers(change: Change, address_tokens: str, traceparent: str | None = None) -> dict[str, str]:
    """Return the CloudEvents attributes of a change."""
    identity = change_id(change.tenant, change.entity, address_tokens, change.version)
    return event_headers(identity, change.entity, change.operation, address_tokens, format_time(change.at), traceparent)


def event_headers(
    identity: str, entity: str, operation: str, address_tokens: str, at: str, traceparent: str | None
) -> dict[str, str]:
    """Return the CloudEvents attributes of a change from plain values, which is fast for many changes."""
    headers = {
        "ce-specversion": "1.0",
        "ce-id": _attribute(identity),
        "ce-type": f"hivemem.{entity}.{operation}",
        "ce-source": f"hivemem/{entity}",
        "ce-subject": _attribute(address_tokens),
        "ce-time": at,
        "content-type": "application/json",
    }
    if traceparent:
        headers["traceparent"] = traceparent
    return headers


def _attribute(value: str) -> str:
    """Escape a CloudEvents attribute for a header: readers undo percent escapes, so a token's own are escaped again."""
    return value.replace("%", "%25")


def traceparent_of(headers: Mapping[str, str] | None) -> str | None:
    """Return the trace context if it has the W3C form. It is copied into the headers of changes and dead letters."""
    sent = headers.get("traceparent") if headers else None
    return sent if sent is not None and _TRACEPARENT.fullmatch(sent) else None
