"""The fields of every change on the feed, and the class for changes that this client does not know."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, ConfigDict, Field, JsonValue

from hivemem_contracts.changes import ChangeEnvelope

NoValue = Annotated[None, BeforeValidator(lambda _: None)]
"""The value of a change that has none. If a newer fleet sends one, it is ignored."""


class Received(ChangeEnvelope, frozen=True):
    """A change from the feed, with its place. `hivemem.Change` lists its kinds, each with the type of its value."""

    model_config = ConfigDict(defer_build=True)

    kind: str = Field(default="", description="Its entity and operation as sent, such as `event.appended`.")
    sequence: int = Field(default=0, description="Its position in the stream; it grows along the feed, with gaps.")
    subject: str = Field(default="", description="The subject that it was announced on.")
    cursor: str = Field(default="", description="Opaque: `hive.changes(since=…)` continues after this change.")
    data: bytes = Field(default=b"", exclude=True, repr=False, description="The whole announcement as sent, in JSON.")


class OtherChange(Received, frozen=True):
    """A change of a newer fleet, whose entity, operation or value this client does not know. `kind` says what it is.

    So `change.entity == "event"` always means a change of events that this client knows.
    """

    entity: Literal["other"] = "other"
    operation: Literal["other"] = "other"
    value: JsonValue = Field(default=None, description="The new value, in JSON.")
