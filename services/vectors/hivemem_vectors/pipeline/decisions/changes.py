"""Changes of memories, events and sessions in plain values: from the feed, or as they were read by request."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple, cast

from hivemem_contracts.changes import Change
from hivemem_contracts.errors import InvalidRequest
from hivemem_contracts.identifiers import microseconds_from_time
from hivemem_contracts.large_values import is_reference
from hivemem_runtime.ledger.places import place_of
from hivemem_runtime.ledger.port import Append, Decision, Heads, value_of
from hivemem_vectors.pipeline.decisions.points import METADATA_FIELDS, VALUE_FIELDS, WORD_CHARACTERS, scope_words
from hivemem_vectors.pipeline.entities import FOLLOWED, Followed, event_place

ERASED: Final = "erased"
_MOMENTS: Final = ("updated_at", "valid_from", "valid_to", "expires_at")


class ItemVersion(NamedTuple):
    """One version of an item, with the `fields` of its mirror. `text` is None if it still has to be read. Only events
    have a `value`. With `gone` the version is a deletion, and `receipt` names the erasure behind it, if any."""

    tenant: str
    place: str
    version: int
    gone: bool
    fields: dict[str, Any]
    text: str | None
    value: Any = None
    receipt: str | None = None


def version_of_change(change: Change) -> ItemVersion:
    """Return the version that a change of a memory announces."""
    if change.key is None:
        raise InvalidRequest("key: a memory's change without one", field="key")
    place = place_of(change.namespace, change.key)
    if change.value_omitted:
        return ItemVersion(change.tenant, place, change.version, change.operation == "deleted", {}, None)
    value = object_of(change)
    if change.operation == ERASED:
        receipt = value.get("receipt")
        return ItemVersion(
            change.tenant, place, change.version, True, {}, None, receipt=receipt if isinstance(receipt, str) else None
        )
    return version_of_memory(change.tenant, value)


def version_of_memory(tenant: str, memory: Mapping[str, Any]) -> ItemVersion:
    """Return the version of a memory in its wire format."""
    try:
        place = place_of(memory["namespace"], memory["key"])
        if memory["deleted"]:
            return ItemVersion(tenant, place, memory["version"], True, {}, None)
        return ItemVersion(tenant, place, memory["version"], False, _fields_of_memory(memory), _text_of_memory(memory))
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidRequest(f"value: no memory as it travels ({type(error).__name__})", field="value") from error


def version_of_event(tenant: str, session_id: str, scope: Sequence[str], event: Mapping[str, Any]) -> ItemVersion:
    """Return the version of an event in its wire format; its version is its sequence. `scope` is its session's."""
    try:
        fields = {
            "created_by": event["author"],
            "updated_at": microseconds(moment_of(event)),
            "committed_at": microseconds(event["at"]),
            "metadata": short_fields(event["metadata"]),
            "scope": list(scope),
        }
        return ItemVersion(
            tenant,
            event_place(session_id, event["event_id"]),
            event["sequence"],
            False,
            fields,
            event_text(event),
            event["content"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidRequest(f"value: no event as it travels ({type(error).__name__})", field="value") from error


def _text_of_memory(memory: Mapping[str, Any]) -> str:
    # A memory service of an earlier release does not say what to index.
    indexed = memory.get("index")
    if indexed is None:
        return text_of(memory["value"], memory["metadata"])
    return SECTION_END.join(indexed or ())[:TEXT_CHARACTERS]


def _fields_of_memory(memory: Mapping[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {"memory_type": memory["memory_type"], "created_by": memory["created_by"]}
    if (importance := memory["importance"]) is not None:
        fields["importance"] = float(importance)
    for name in _MOMENTS:
        if (moment := memory[name]) is not None:
            fields[name] = microseconds(moment)
    fields["metadata"] = short_fields(memory["metadata"])
    if value := value_fields(memory["value"]):
        fields["value"] = value
    return fields


def short_fields(metadata: Mapping[str, Any]) -> dict[str, str | int]:
    """Return the fields of the metadata that a recall can filter by: short ones, up to a limit."""
    kept: dict[str, str | int] = {}
    for name, value in metadata.items():
        is_short = isinstance(value, str | int) and len(str(value)) <= WORD_CHARACTERS
        if is_short and len(name) <= WORD_CHARACTERS:
            kept[name] = value
            if len(kept) == METADATA_FIELDS:
                break
    return kept


def value_fields(value: object) -> dict[str, str | float | None]:
    """Return the fields of a value that a recall can filter by, under the names that `memory.list` has for them: short
    ones, up to a limit, those of the value itself before those of the objects in it."""
    kept: dict[str, str | float | None] = {}
    named: set[str] = set()
    objects: list[tuple[str, object]] = [("", value)]
    for prefix, inner in objects:
        if not isinstance(inner, Mapping):
            continue
        for name, item in cast("Mapping[str, object]", inner).items():
            path = prefix + name
            if path in named or len(path) > WORD_CHARACTERS or (prefix and "." in name):
                continue
            named.add(path)
            objects.append((f"{path}.", item))
            if item is None or (isinstance(item, str | int | float) and len(str(item)) <= WORD_CHARACTERS):
                kept[path] = item
                if len(kept) == VALUE_FIELDS:
                    return kept
    return kept


def microseconds(moment: str) -> int:
    return microseconds_from_time(datetime.fromisoformat(moment))


def object_of(change: Change) -> Mapping[str, Any]:
    """Return the value of a change that carries one."""
    if not isinstance(change.value, Mapping):
        raise InvalidRequest("value: no object", field="value")
    return cast("Mapping[str, Any]", change.value)


TEXT_CHARACTERS: Final = 200_000
"""The most characters of one memory that are indexed. Text behind that cannot be found."""

SECTION_END: Final = "\x1e"
"""Stands between the texts of a memory that names several: no chunk has parts of two of them."""

_BETWEEN: Final = "\n"


def text_of(value: object, metadata: Mapping[str, Any]) -> str:
    """Return `metadata.text`, or else the strings of the value in order, or an empty text."""
    told = metadata.get("text")
    if isinstance(told, str) and told.strip():
        return told.strip()[:TEXT_CHARACTERS]
    pieces: list[str] = []
    room = TEXT_CHARACTERS
    for string in _strings(value):
        pieces.append(string[:room])
        room -= len(string) + len(_BETWEEN)
        if room <= 0:
            break
    return _BETWEEN.join(pieces)


def event_text(event: Mapping[str, Any]) -> str:
    """Return the text of an event that is embedded and shown, with its author. The day on which it occurred is only
    among the words of its points, because it blurs the meaning. An event without text has none, and a large value has
    none but that of the metadata."""
    content = None if is_reference(event["content"]) else event["content"]
    text = text_of(content, event["metadata"])
    return f"{event['author']}: {text}" if text else ""


def moment_of(event: Mapping[str, Any]) -> str:
    """Return when an event occurred, or else when it was committed."""
    moment: str = event.get("occurred_at") or event["at"]
    return moment


def _strings(value: object) -> Iterator[str]:
    """Yield the strings of a value. This needs no recursion, because values can be nested deeply."""
    rest: list[object] = [value]
    while rest:
        item = rest.pop()
        if isinstance(item, str):
            if stripped := item.strip():
                yield stripped
        elif isinstance(item, Mapping):
            rest.extend(reversed(list(cast("Mapping[str, object]", item).values())))
        elif isinstance(item, list | tuple):
            rest.extend(reversed(cast("list[object]", item)))


ASKS: Final = "index_events"


class AskingSession(NamedTuple):
    """A session that asks for its events to be indexed, as it was at a `revision`. A fork shares the events up to
    sequence `after` with its origin, under which they are found."""

    tenant: str
    session_id: str
    since: int
    revision: int
    scope: list[str]
    after: int


def asking(tenant: str, session: Mapping[str, Any]) -> AskingSession | None:
    """Return a session in its wire format if it asks for its events to be indexed."""
    metadata: object = session.get("metadata")
    if not isinstance(metadata, Mapping) or cast("Mapping[str, Any]", metadata).get(ASKS) is not True:
        return None
    try:
        scope = scope_words(session["user_id"], session["app_name"], session["project_id"])
        since, revision = microseconds(session["created_at"]), session["revision"]
        return AskingSession(tenant, session["session_id"], since, revision, scope, _shared_through(session))
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidRequest(f"value: no session as it travels ({type(error).__name__})", field="value") from error


def may_ask(update: Change) -> bool:
    """Return whether an update may be one after which a session's events are indexed, or not any more, or move."""
    if update.value_omitted:
        return True
    changed = object_of(update)
    metadata: object = changed.get("metadata")
    return "project_id" in changed or (isinstance(metadata, Mapping) and ASKS in metadata)


def _shared_through(session: Mapping[str, Any]) -> int:
    origin: object = session.get("forked_from")
    if not isinstance(origin, Mapping):
        return 0
    sequence: object = cast("Mapping[str, Any]", origin).get("sequence")
    return sequence if isinstance(sequence, int) else 0


def follow(sessions: Sequence[AskingSession], heads: Heads, now: int) -> Decision:
    """Follow sessions as they are now, unless something later is known of them."""
    del now
    appends = list[Append[Followed, Followed]]()
    for one in sessions:
        followed = value_of(heads(FOLLOWED, one.session_id))
        if followed is None or followed.revision < one.revision:
            now_followed = Followed(True, since=one.since, revision=one.revision, scope=one.scope)
            appends.append(Append(FOLLOWED, one.session_id, now_followed))
    return appends


def let_go(heads: Heads, session_id: str, revision: int) -> Decision:
    """Stop following a session that ended, or does not ask any more, unless something later is known of it."""
    followed = value_of(heads(FOLLOWED, session_id))
    if followed is None or followed.gone or followed.revision > revision:
        return []
    return [Append(FOLLOWED, session_id, Followed(False, gone=True, since=followed.since, revision=revision))]
