"""The columns of a table, in the order of their importance: a narrow window shows the first ones only."""

from collections.abc import Sequence
from typing import Any, Final

from pydantic import BaseModel, JsonValue

_ANY_JSON: Final[Any] = JsonValue
_MEMORY: Final = ("namespace", "key", "value", "version", "updated_at", "updated_by", "memory_type", "importance")
_FILE: Final = ("name", "version", "size", "content_type", "created_at", "timestamp", "created_by", "url")

IMPORTANT: Final[dict[str, tuple[str, ...]]] = {
    "Session": ("session_id", "status", "user_id", "app_name", "updated_at", "event_count", "project_id", "revision"),
    "Event": ("sequence", "type", "author", "content", "at", "state_delta", "occurred_at", "event_id"),
    "Memory": _MEMORY,
    "MemoryVersion": ("version", "operation", "value", "updated_at", "updated_by", "request_id"),
    "MemoryChange": ("namespace", "key", "change"),
    "AuditEntry": ("position", "at", "actor", "operation", "namespace", "key", "to_version", "outcome", "error"),
    "Artifact": _FILE,
    "ManifestEntry": _FILE,
    "WorkspaceVersion": ("workspace_id", "version", "files", "bytes", "message", "created_at", "agent_id", "cycle"),
    "WorkspaceEntry": ("path", "size", "mode", "target"),
    "IndexStatus": ("namespace", "key", "state", "version", "indexed_version", "error", "attempts"),
    "StoredMessage": ("sequence", "role", "content", "tokens", "by", "at", "name", "share", "message_id"),
    "ListedWindow": ("resource", "key", "messages", "tokens", "status", "updated_at"),
    "Recalled": ("score", "namespace", "key", "text", "value", "kind", "version", "updated_at"),
}
"""The most important fields of replies by the name of their model; the others follow as they are declared."""

PROSE: Final = {"text", "error", "detail", "problem"}
"""Fields with sentences, which may be cut like values. Other text is an id or a word, and stays whole."""

BULK: Final = {"data_base64"}
"""Fields that nobody reads: a terminal gets their length."""

ONE_OF: Final = {"StateView": ("state", "value")}
"""Replies in which one of these fields answers the request, and the others are null; a value may itself be null."""


def columns_of(model: type[BaseModel]) -> list[str]:
    """Return the names of all fields, the most important first."""
    fields = model.model_fields
    return list(dict.fromkeys([*(name for name in IMPORTANT.get(model.__name__, ()) if name in fields), *fields]))


def takes_json(row: object, name: str) -> bool:
    """Return whether a field of a reply takes any JSON, so that a text in it has to be told from a number."""
    if not isinstance(row, BaseModel):
        return False
    return type(row).model_fields[name].annotation is _ANY_JSON


def is_flexible(name: str, values: Sequence[Any]) -> bool:
    """Return whether the values of a column may be cut: they are objects, lists or prose."""
    return name in PROSE or any(isinstance(value, (dict, list, BaseModel)) for value in values)
