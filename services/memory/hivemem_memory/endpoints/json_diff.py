"""What makes one JSON value another one: objects compared key by key, lists item by item, places as JSON pointers."""

from collections.abc import Iterator
from typing import Any, Final, TypeGuard

import orjson


class Absent:
    """Stands where there is no value at all, which `null` is not."""


ABSENT: Final = Absent()
Step = dict[str, Any]
"""A `Difference` as it travels."""


def differences(before: object, after: object, path: str = "") -> Iterator[Step]:
    """The differences, in an order in which they can be made one after the other: what a list loses, it loses from its
    end, and what it gains, it gains there."""
    if before is ABSENT or after is ABSENT:
        if before is not after:
            change = "added" if before is ABSENT else "removed"
            yield _step(path, change, None if before is ABSENT else before, None if after is ABSENT else after)
    elif _is_object(before) and _is_object(after):
        yield from _of_objects(before, after, path)
    elif _is_list(before) and _is_list(after):
        yield from _of_lists(before, after, path)
    elif type(before) is not type(after) or before != after:
        # By type, too: to Python `true` is 1 and 1.0, in JSON they are three.
        yield _step(path, "changed", before, after)


def _is_object(value: object) -> TypeGuard[dict[str, object]]:
    return isinstance(value, dict)


def _is_list(value: object) -> TypeGuard[list[object]]:
    return isinstance(value, list)


def bounded_differences(before: object, after: object, limit: int) -> list[Step] | None:
    """The differences, or None where they would take more than `limit` bytes; found out without making them all."""
    found: list[Step] = []
    left = limit
    for step in differences(before, after):
        left -= len(orjson.dumps(step)) + 1
        if left < 0:
            return None
        found.append(step)
    return found


def _of_objects(before: dict[str, object], after: dict[str, object], path: str) -> Iterator[Step]:
    for key, value in before.items():
        yield from differences(value, after.get(key, ABSENT), f"{path}/{_escaped(key)}")
    for key, value in after.items():
        if key not in before:
            yield _step(f"{path}/{_escaped(key)}", "added", None, value)


def _of_lists(before: list[object], after: list[object], path: str) -> Iterator[Step]:
    for place, (old, new) in enumerate(zip(before, after, strict=False)):
        yield from differences(old, new, f"{path}/{place}")
    for place in range(len(before) - 1, len(after) - 1, -1):
        yield _step(f"{path}/{place}", "removed", before[place], None)
    for place in range(len(before), len(after)):
        yield _step(f"{path}/{place}", "added", None, after[place])


def _escaped(key: str) -> str:
    """A key as a part of a JSON pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1") if "~" in key or "/" in key else key


def _step(path: str, change: str, before: object, after: object) -> Step:
    return {"path": path, "change": change, "before": before, "after": after}
