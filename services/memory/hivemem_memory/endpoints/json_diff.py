"""The difference between two JSON values. Objects are compared by key, lists by index; paths are JSON pointers."""

from collections.abc import Iterator
from typing import Any, Final, TypeGuard

import orjson


class Absent:
    """The type of a missing value, which differs from null."""


ABSENT: Final = Absent()
DifferenceFields = dict[str, Any]
"""The wire format of a `Difference`."""


def differences(before: object, after: object, path: str = "") -> Iterator[DifferenceFields]:
    """Yield the differences in an order in which they can be applied. Lists lose and gain items at their end."""
    if before is ABSENT or after is ABSENT:
        if before is not after:
            change = "added" if before is ABSENT else "removed"
            yield _step(path, change, None if before is ABSENT else before, None if after is ABSENT else after)
    elif _is_object(before) and _is_object(after):
        yield from _of_objects(before, after, path)
    elif _is_list(before) and _is_list(after):
        yield from _of_lists(before, after, path)
    elif type(before) is not type(after) or before != after:
        # Types are compared too: Python treats true, 1 and 1.0 as equal, JSON does not.
        yield _step(path, "changed", before, after)


def _is_object(value: object) -> TypeGuard[dict[str, object]]:
    return isinstance(value, dict)


def _is_list(value: object) -> TypeGuard[list[object]]:
    return isinstance(value, list)


def bounded_differences(before: object, after: object, limit: int) -> list[DifferenceFields] | None:
    """Return the differences, or None if they exceed `limit` bytes. It stops at the limit."""
    found: list[DifferenceFields] = []
    left = limit
    for step in differences(before, after):
        left -= len(orjson.dumps(step)) + 1
        if left < 0:
            return None
        found.append(step)
    return found


def _of_objects(before: dict[str, object], after: dict[str, object], path: str) -> Iterator[DifferenceFields]:
    for key, value in before.items():
        yield from differences(value, after.get(key, ABSENT), f"{path}/{_escaped(key)}")
    for key, value in after.items():
        if key not in before:
            yield _step(f"{path}/{_escaped(key)}", "added", None, value)


def _of_lists(before: list[object], after: list[object], path: str) -> Iterator[DifferenceFields]:
    for place, (old, new) in enumerate(zip(before, after, strict=False)):
        yield from differences(old, new, f"{path}/{place}")
    for place in range(len(before) - 1, len(after) - 1, -1):
        yield _step(f"{path}/{place}", "removed", before[place], None)
    for place in range(len(before), len(after)):
        yield _step(f"{path}/{place}", "added", None, after[place])


def _escaped(key: str) -> str:
    """Return a key escaped for a JSON pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1") if "~" in key or "/" in key else key


def _step(path: str, change: str, before: object, after: object) -> DifferenceFields:
    return {"path": path, "change": change, "before": before, "after": after}
