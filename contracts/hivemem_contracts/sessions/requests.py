"""The request bodies of the sessions service."""

from typing import Annotated, get_args

from pydantic import AfterValidator, ConfigDict, Field, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from hivemem_contracts.field_rules import combination, refuses
from hivemem_contracts.fields import Cursor, ExpectedVersion, Limit, Metadata, Value, Version
from hivemem_contracts.identifiers import AgentName, Id, Time
from hivemem_contracts.json_limits import INTEGER_MAXIMUM
from hivemem_contracts.limits import BATCH_ITEMS, LIST_DEFAULT, LIST_MAXIMUM, STATE_INDEXES
from hivemem_contracts.model import RequestBody
from hivemem_contracts.named_types import NamedType
from hivemem_contracts.sessions.models import (
    ExpectedRevision,
    MachineChoice,
    MachineDefinition,
    NewEvent,
    Revision,
    Scalar,
    Scope,
    SessionSort,
    State,
    StateKey,
    StateNulls,
    Status,
)


def _check_nulls(nulls: list[str] | None, fields: ValidationInfo) -> list[str] | None:
    """Refuse a key that is named twice, or that the delta beside it sets or deletes."""
    seen: set[str] = set()
    for key in nulls or ():
        if key in seen:
            raise PydanticCustomError("repeated_key", "key {key} is named twice", {"key": repr(key)})
        seen.add(key)
    for name in ("state_delta", "initial_state"):
        for key in fields.data.get(name) or ():
            if key in seen:
                message = "key {key} is in {other}, too"
                raise PydanticCustomError("repeated_key", message, {"key": repr(key), "other": name})
    return nulls


def _check_indexed(key: str) -> str:
    prefix = key.partition(":")[0]
    if prefix in get_args(Scope):
        message = "a key of the {scope} scope does not belong to a session"
        raise PydanticCustomError("shared_key", message, {"scope": prefix})
    return key


IndexedKey = Annotated[
    StateKey,
    AfterValidator(_check_indexed),
    NamedType(
        "IndexedKey",
        "A key of the session's own state, so none of a shared scope.",
        {"not": {"pattern": f"^(?:{'|'.join(get_args(Scope))})(?::|$)"}},
    ),
]
Where = Annotated[dict[StateKey, Scalar], Field(min_length=1, max_length=STATE_INDEXES)]


class CreateSession(RequestBody):
    session_id: Id | None = Field(default=None, description="A ULID if left out.")
    app_name: Id
    user_id: Id
    project_id: Id | None = None
    initial_state: State | None = Field(default=None, description="Split into scopes by prefix, like every delta.")
    state_nulls: StateNulls | None = Field(
        default=None, description="Keys that begin with the value `null`; `initial_state` has none of them."
    )
    metadata: Metadata = Field(default_factory=dict)
    machine: MachineChoice | None = Field(
        default=None,
        description="The name of a stored machine (its newest version), or a definition of the session's own.",
    )

    _nulls_are_distinct = field_validator("state_nulls")(_check_nulls)


class GetSession(RequestBody):
    session_id: Id
    events: Annotated[int, Field(ge=0, le=LIST_MAXIMUM)] = Field(
        default=0, description="Number of newest events to return."
    )
    revision: Revision | None = Field(default=None, description="As it was at this revision.")
    at: Time | None = Field(default=None, description="As it was at this moment.")


class AppendEvent(RequestBody):
    session_id: Id
    event: NewEvent
    state_delta: State | None = Field(default=None, description="`null` deletes a key.")
    state_nulls: StateNulls | None = Field(
        default=None, description="Keys to set to the value `null`; `state_delta` has none of them."
    )
    expect_revision: ExpectedRevision | None = None

    _nulls_are_distinct = field_validator("state_nulls")(_check_nulls)


class AppendEvents(RequestBody):
    appends: list[AppendEvent] = Field(min_length=1, max_length=BATCH_ITEMS)


class ListEvents(RequestBody):
    session_id: Id
    after: Annotated[int, Field(ge=0, le=INTEGER_MAXIMUM)] | None = Field(
        default=None, description="Only later sequences than this."
    )
    before: Annotated[int, Field(ge=1, le=INTEGER_MAXIMUM)] | None = Field(
        default=None, description="Only earlier sequences than this."
    )
    since: Time | None = Field(default=None, description="Only events committed at this moment or later.")
    until: Time | None = Field(default=None, description="Only events committed before this moment.")
    type: Id | None = None
    author: AgentName | None = None
    limit: Limit = LIST_DEFAULT
    cursor: Cursor | None = None
    reverse: bool = Field(default=False, description="Newest first.")


class GetState(RequestBody):
    """Read the state of a session, or of a shared scope."""

    model_config = ConfigDict(
        json_schema_extra=refuses(
            combination(missing=["session_id", "scope"]),
            combination(missing=["session_id", "scope_id"]),
            combination(given=["session_id", "scope"]),
            combination(given=["session_id", "scope_id"]),
        )
    )

    session_id: Id | None = Field(default=None, description="The session; otherwise `scope` and `scope_id` are needed.")
    scope: Scope | None = Field(default=None, description="A shared scope, read without a session.")
    scope_id: Id | None = Field(default=None, description="The user, app or project of the scope.")
    key: StateKey | None = Field(
        default=None, description="One key, with its prefix if it is shared; all of them if left out."
    )


class SetState(RequestBody):
    """Set or delete one key."""

    model_config = ConfigDict(json_schema_extra=refuses(combination(true=["keep_null"], given=["value"])))

    session_id: Id
    key: StateKey
    value: Value = Field(description="`null` deletes the key, unless `keep_null` is true.")
    keep_null: bool = Field(
        default=False, description="Set the key to the value `null`; `value` has to be `null` then."
    )
    expect_revision: ExpectedRevision | None = Field(
        default=None, description="The session's revision, or for a shared key its scope's."
    )


class SetStatus(RequestBody):
    session_id: Id
    status: Status


class UpdateSession(RequestBody):
    """Change the metadata, the project, or both."""

    model_config = ConfigDict(json_schema_extra=refuses(combination(missing=["metadata", "project_id"])))

    session_id: Id
    metadata: Metadata | None = Field(
        default=None, description="A JSON merge patch (RFC 7396): `null` removes a field."
    )
    project_id: Id | None = Field(default=None, description="The project that the session belongs to from now on.")
    expect_revision: ExpectedRevision | None = None

    @model_validator(mode="after")
    def _changes_something(self) -> "UpdateSession":
        if self.metadata is None and self.project_id is None:
            raise ValueError("one of metadata and project_id has to be given")
        return self


class TerminateSession(RequestBody):
    session_id: Id


class ArchiveSession(RequestBody):
    session_id: Id


class DeleteSession(RequestBody):
    session_id: Id


class ForkSession(RequestBody):
    session_id: Id
    revision: Revision | None = Field(default=None, description="Share history up to here; up to now if left out.")
    new_session_id: Id | None = Field(default=None, description="A ULID if left out.")


class FindShared(RequestBody):
    session_ids: list[Id] = Field(min_length=1, max_length=BATCH_ITEMS)


class ListSessions(RequestBody):
    """List sessions with all of the given properties."""

    model_config = ConfigDict(json_schema_extra=refuses(combination(given=["where"], missing=["app_name"])))

    status: Status | None = None
    user_id: Id | None = None
    app_name: Id | None = None
    project_id: Id | None = None
    active: bool | None = Field(
        default=None, description="True: created, active or paused. False: terminated or archived."
    )
    sort: SessionSort | None = Field(
        default=None,
        description="Newest or last updated first. If left out: last updated for a `status` without other filters but "
        "`active`, else newest.",
    )
    where: Where | None = Field(
        default=None,
        description="State keys and the value that each has in the session's own state. They are state indexes of "
        "`app_name`, which has to be given.",
    )
    limit: Limit = LIST_DEFAULT
    cursor: Cursor | None = None


class PutApp(RequestBody):
    app_name: Id
    state_indexes: list[IndexedKey] = Field(
        max_length=STATE_INDEXES,
        json_schema_extra={"uniqueItems": True},
        description="All keys of the session's own state that `list` can find sessions by.",
    )

    @field_validator("state_indexes")
    @classmethod
    def _keys_are_distinct(cls, keys: list[str]) -> list[str]:
        for place, key in enumerate(keys):
            if key in keys[:place]:
                raise PydanticCustomError("repeated_key", "key {key} is named twice", {"key": repr(key)})
        return keys


class GetApp(RequestBody):
    app_name: Id


class PutMachine(RequestBody):
    name: Id
    definition: MachineDefinition
    expect_version: ExpectedVersion | None = None


class GetMachine(RequestBody):
    name: Id
    version: Version | None = Field(default=None, description="The newest if left out.")
