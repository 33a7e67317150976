"""The shapes of sessions on the wire."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Discriminator, Field, JsonValue, StringConstraints, Tag

from hivemem_contracts.fields import Metadata, Value
from hivemem_contracts.identifiers import Id, Time
from hivemem_contracts.json_values import FromPython
from hivemem_contracts.limits import BATCH_ITEMS, MACHINE_BYTES, VALUE_BYTES
from hivemem_contracts.model import ReplyBody, RequestBody
from hivemem_contracts.named_types import NamedType
from hivemem_contracts.patterns import NO_CONTROL
from hivemem_contracts.sizes import MaxBytes

Status = Literal["created", "active", "paused", "terminated", "archived"]
StateKey = Annotated[
    str,
    StringConstraints(min_length=1, max_length=256, pattern=NO_CONTROL),
    NamedType(
        "StateKey",
        "A key of the state: 1 to 256 characters, no control characters. A key of a shared scope begins with `user:`, "
        "`app:` or `project:`, a temporary one with `temp:`.",
    ),
]
State = Annotated[dict[StateKey, Value], FromPython()]
StateNulls = Annotated[list[StateKey], Field(max_length=BATCH_ITEMS, json_schema_extra={"uniqueItems": True})]
Scope = Literal["user", "app", "project"]
SessionSort = Literal["-created_at", "-updated_at"]
Scalar = Annotated[str | int | float | bool | None, MaxBytes(VALUE_BYTES)]
Revision = Annotated[int, Field(ge=1, le=2**53)]
ExpectedRevision = Annotated[
    int, Field(ge=0, le=2**53, description="Refuse with RevisionConflict unless this is the current revision.")
]


class NewEvent(RequestBody):
    """An event to append."""

    event_id: Id | None = Field(
        default=None,
        description="The same id again returns the first result; derived from the message id if left out.",
    )
    type: Id = Field(description="The kind of event; a session's machine reacts to it.")
    author: Id | None = Field(default=None, description="The author; the acting agent if left out.")
    content: Value = Field(default=None, description="Any JSON, or the reference to a large value.")
    metadata: Metadata = Field(default_factory=dict)
    parent_id: Id | None = Field(default=None, description="The event that this one answers or continues.")
    occurred_at: Time | None = Field(default=None, description="When it happened, if that is not now.")


class Event(ReplyBody):
    """A stored event. It never changes."""

    event_id: str
    sequence: int = Field(description="Counts the events of the session from 1, without a gap.")
    type: str
    author: str | None
    content: JsonValue = Field(default=None, description="Any JSON, or the reference to a large value.")
    state_delta: dict[str, JsonValue] | None = Field(
        default=None, description="Its change of the state; `null` for a deleted key."
    )
    state_nulls: list[str] | None = Field(default=None, description="The keys that it set to the value `null`.")
    metadata: Metadata = Field(default_factory=dict)
    parent_id: str | None = None
    occurred_at: Time | None = Field(default=None, description="When it happened, by its sender.")
    at: Time = Field(description="When it was committed.")


class Transition(RequestBody):
    """One arrow of a state machine."""

    # `from` is a word of Python, so Python says `source` and `target`; the wire has the aliases only.
    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)

    source: Id = Field(validation_alias="from", serialization_alias="from", description="The state it starts from.")
    event: Id = Field(description="The event type that triggers it.")
    target: Id = Field(validation_alias="to", serialization_alias="to", description="The state it ends in.")
    when: Annotated[str, StringConstraints(min_length=1, max_length=1_024)] | None = Field(
        default=None,
        description="A CEL expression over `state` (the session's, before this event) and `event`, which must be true.",
    )


class Machine(RequestBody):
    """States, events and guarded transitions. An event that no transition allows is refused."""

    initial: Id
    states: list[Id] = Field(min_length=1, max_length=256)
    transitions: list[Transition] = Field(max_length=1_024)
    open: bool = Field(
        default=False, description="True accepts event types that no transition names; they cause no transition."
    )


MachineDefinition = Annotated[Machine, MaxBytes(MACHINE_BYTES)]


def _machine_form(value: object) -> str:
    return "name" if isinstance(value, str) else "definition"


MachineChoice = Annotated[
    Annotated[Id, Tag("name")] | Annotated[MachineDefinition, Tag("definition")], Discriminator(_machine_form)
]
"""The name of a stored machine, or a definition; an error is then about the form that was sent."""


class MachineState(ReplyBody):
    """The state machine of a session, and its current state."""

    name: str | None = None
    version: int | None = None
    state: str
    allowed: list[str] = Field(description="The event types of the transitions from the current state.")


class Origin(ReplyBody):
    """The origin of a fork, which shares its events up to `sequence`."""

    session_id: str
    revision: int
    sequence: int


class Session(ReplyBody):
    """The head of a session. `state` shows the shared scopes under `user:`, `app:` and `project:`."""

    session_id: str
    app_name: str
    user_id: str
    project_id: str | None = None
    status: Status
    state: dict[str, JsonValue]
    metadata: Metadata
    revision: int
    event_count: int
    created_at: Time
    updated_at: Time
    terminated_at: Time | None = None
    archived_at: Time | None = None
    machine: MachineState | None = None
    forked_from: Origin | None = None
