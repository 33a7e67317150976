"""The changes that the sessions service announces, each with the model of its value."""

from typing import Final, get_args

from pydantic import Field, JsonValue

from hivemem_contracts.changes import ChangeKind
from hivemem_contracts.model import ReplyBody
from hivemem_contracts.sessions.models import Event, Scope, Session, Status


class StatusChanged(ReplyBody):
    """A session went from one status to another."""

    status: Status
    previous_status: Status
    state_delta: dict[str, JsonValue] | None = Field(
        default=None, description="The change of the session's own state: termination deletes `temp:` keys."
    )


class SessionUpdated(ReplyBody):
    """A session's metadata or project changed; a field that did not change is left out."""

    metadata: dict[str, JsonValue] | None = Field(
        default=None, description="The merge patch of the metadata; `null` for a removed field."
    )
    project_id: str | None = Field(default=None, description="The project that the session belongs to now.")


class StateChanged(ReplyBody):
    """The change of one scope of the state by a write."""

    state_delta: dict[str, JsonValue] = Field(description="The keys that were set; `null` for a deleted one.")
    state_nulls: list[str] | None = Field(default=None, description="The keys that were set to the value `null`.")


class ScopeChanged(StateChanged):
    """The change of a shared scope by a write, and the session that made it."""

    session_id: str | None = Field(default=None, description="The session that made the change.")


class AppChanged(ReplyBody):
    """The declaration of an app changed, or its state indexes are complete."""

    state_indexes: list[str]
    pending: list[str] = Field(description="The state indexes that do not have the earlier sessions yet.")


SCOPES: Final = get_args(Scope)
"""The shared scopes of the state."""

_SESSION: Final = ("session_id",)
_SCOPE: Final = ("scope", "scope_id")

CHANGES: Final[tuple[ChangeKind, ...]] = (
    ChangeKind(
        "session",
        "created",
        Session,
        "A session was created; its state is its own, without the shared scopes.",
        _SESSION,
    ),
    ChangeKind(
        "session",
        "forked",
        Session,
        "A session was made as a fork of another; its state is its own, without the shared scopes.",
        _SESSION,
    ),
    ChangeKind("session", "updated", SessionUpdated, "The metadata or the project of a session changed.", _SESSION),
    ChangeKind("session", "status_changed", StatusChanged, "The status of a session changed.", _SESSION),
    ChangeKind(
        "session", "state_changed", StateChanged, "A write without an event changed a session's own state.", _SESSION
    ),
    ChangeKind(
        "session",
        "archived",
        StatusChanged,
        "A terminated session was archived: its events move to cold storage and stay readable.",
        _SESSION,
    ),
    ChangeKind("session", "deleted", None, "A session was erased.", _SESSION),
    ChangeKind("event", "appended", Event, "An event was appended to a session.", _SESSION),
    ChangeKind(
        "state",
        "changed",
        ScopeChanged,
        "A shared scope changed: `scope` is `user`, `app` or `project`, `scope_id` its id.",
        _SCOPE,
        starts=SCOPES,
    ),
    ChangeKind("app", "changed", AppChanged, "The state indexes of an app changed, or are complete.", ("app_name",)),
)
