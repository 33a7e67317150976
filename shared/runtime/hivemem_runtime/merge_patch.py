"""JSON merge patches."""

from typing import Any, cast


def merge_patch(target: Any, patch: Any) -> Any:
    """Apply an RFC 7396 merge patch: null removes a field, objects are merged, other values replace."""
    if not isinstance(patch, dict):
        return patch
    merged: dict[str, Any] = dict(cast("dict[str, Any]", target)) if isinstance(target, dict) else {}
    for name, value in cast("dict[str, Any]", patch).items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value)
    return merged
