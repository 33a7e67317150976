"""The reply bodies of the sessions service."""

from typing import Any

from pydantic import Field, JsonValue

from hivemem_contracts.identifiers import Time
from hivemem_contracts.model import ReplyBody
from hivemem_contracts.sessions.models import Event, Machine, Session


class SessionView(ReplyBody):
    session: Session
    events: list[Event] = Field(description="The newest ones, oldest first.")
    cut: bool = Field(default=False, description="True if fewer events than asked for fit the answer.")
    cursor: str | None = Field(
        default=None,
        description="The place before the oldest of these, for `events` with `reverse`; `null` if none is older.",
    )


class SessionWritten(Session):
    """A session right after a write."""

    duplicate: bool = Field(
        default=False, description="True if this write was done before: the session as it was right after it, again."
    )


class Appended(ReplyBody):
    session_id: str
    event_id: str
    sequence: int
    revision: int
    duplicate: bool = Field(description="True if this event was appended before: the first result again.")


class AppendOutcome(ReplyBody):
    """One of a batch: the fields of an append's answer, or `error`."""

    session_id: str | None = None
    event_id: str | None = None
    sequence: int | None = None
    revision: int | None = None
    duplicate: bool | None = None
    error: dict[str, Any] | None = None


class AppendedBatch(ReplyBody):
    results: list[AppendOutcome] = Field(description="In the order of the request.")


class EventPage(ReplyBody):
    items: list[Event]
    cursor: str | None


class SharedSessions(ReplyBody):
    session_ids: list[str] = Field(description="In the order of the request.")


class StateView(ReplyBody):
    """The state: `state` for all keys, `value` for one key."""

    state: dict[str, JsonValue] | None = None
    value: JsonValue = None
    exists: bool | None = Field(
        default=None, description="Whether the key exists: its value may be `null`. `null` for all keys."
    )
    revision: int = Field(description="The session's, or for a shared key its scope's (0: never written).")


class StateSet(ReplyBody):
    session_id: str
    key: str
    revision: int
    duplicate: bool


class SessionPage(ReplyBody):
    items: list[Session]
    cursor: str | None


class SessionDeleted(ReplyBody):
    """The receipt of a deletion."""

    session_id: str
    revision: int = Field(description="The last one; a later session of this id continues above it.")
    deleted_at: Time
    duplicate: bool = Field(
        default=False, description="True if this request deleted the session before: the first result again."
    )


class AppView(ReplyBody):
    """The declaration of an app, which holds for all of its sessions."""

    app_name: str
    state_indexes: list[str]
    pending: list[str] = Field(
        description="The state indexes that do not have the earlier sessions yet; `list` answers them later."
    )


class AppWritten(AppView):
    """The declaration of an app right after a write."""

    duplicate: bool = Field(default=False, description="True if this request was done before: the first result again.")


class MachineView(ReplyBody):
    name: str
    version: int
    definition: Machine
    created_at: Time
    created_by: str


class MachineWritten(MachineView):
    """A version of a state machine right after a write."""

    duplicate: bool = Field(
        default=False, description="True if this version was stored before: the first result again."
    )
    unreachable: list[str] = Field(
        default_factory=list, description="The states that no transitions lead to from the initial one."
    )
