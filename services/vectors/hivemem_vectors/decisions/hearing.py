"""What others tell of an item, in plain values: from a change on the feed, or from what was read by request."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple, cast

from hivemem_contracts.changes import Change
from hivemem_contracts.errors import InvalidRequest
from hivemem_contracts.identifiers import microseconds_from_time
from hivemem_runtime.ledger.places import place_of
from hivemem_vectors.decisions.points import METADATA_FIELDS, WORD_CHARACTERS
from hivemem_vectors.decisions.texts import text_of
from hivemem_vectors.entities.items import event_place

ERASED: Final = "erased"
_MOMENTS: Final = ("updated_at", "valid_from", "valid_to", "expires_at")


class Told(NamedTuple):
    """One version of an item. `fields` are as a mirror has them; `text` None says that it is still to be read; `value`
    is that of an event. `gone` is a deletion, and `receipt` that of the erasure that it comes from, if it has one."""

    tenant: str
    place: str
    version: int
    gone: bool
    fields: dict[str, Any]
    text: str | None
    value: Any = None
    receipt: str | None = None


def told_by(change: Change) -> Told:
    """What a change of a memory says."""
    if change.key is None:
        raise InvalidRequest("key: a memory's change without one", field="key")
    place = place_of(change.namespace, change.key)
    if change.value_omitted:
        return Told(change.tenant, place, change.version, change.operation == "deleted", {}, None)
    value = value_of(change)
    if change.operation == ERASED:
        receipt = value.get("receipt")
        return Told(
            change.tenant, place, change.version, True, {}, None, receipt=receipt if isinstance(receipt, str) else None
        )
    return told_of_memory(change.tenant, value)


def told_of_memory(tenant: str, memory: Mapping[str, Any]) -> Told:
    """What a memory says, as it travels."""
    try:
        place = place_of(memory["namespace"], memory["key"])
        if memory["deleted"]:
            return Told(tenant, place, memory["version"], True, {}, None)
        text = text_of(memory["value"], memory["metadata"])
        return Told(tenant, place, memory["version"], False, _fields_of_memory(memory), text)
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidRequest(f"value: no memory as it travels ({type(error).__name__})", field="value") from error


def told_of_event(tenant: str, session_id: str, event: Mapping[str, Any]) -> Told:
    """What an event says, as it travels: its sequence is its version."""
    try:
        fields = {
            "created_by": event["author"],
            "updated_at": microseconds(event["at"]),
            "metadata": short_fields(event["metadata"]),
        }
        return Told(
            tenant,
            event_place(session_id, event["event_id"]),
            event["sequence"],
            False,
            fields,
            text_of(event["content"], event["metadata"]),
            event["content"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidRequest(f"value: no event as it travels ({type(error).__name__})", field="value") from error


def _fields_of_memory(memory: Mapping[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {"memory_type": memory["memory_type"], "created_by": memory["created_by"]}
    if (importance := memory["importance"]) is not None:
        fields["importance"] = float(importance)
    for name in _MOMENTS:
        if (moment := memory[name]) is not None:
            fields[name] = microseconds(moment)
    fields["metadata"] = short_fields(memory["metadata"])
    return fields


def short_fields(metadata: Mapping[str, Any]) -> dict[str, str | int]:
    """Those that can be filtered by, as far as there is room for them."""
    kept: dict[str, str | int] = {}
    for name, value in metadata.items():
        is_short = isinstance(value, str | int) and len(str(value)) <= WORD_CHARACTERS
        if is_short and len(name) <= WORD_CHARACTERS:
            kept[name] = value
            if len(kept) == METADATA_FIELDS:
                break
    return kept


def microseconds(moment: str) -> int:
    return microseconds_from_time(datetime.fromisoformat(moment))


def value_of(change: Change) -> Mapping[str, Any]:
    """Of a change that carries one."""
    if not isinstance(change.value, Mapping):
        raise InvalidRequest("value: no object", field="value")
    return cast("Mapping[str, Any]", change.value)
