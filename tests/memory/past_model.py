"""A simple model of the memory service: a list of every version of every memory, and the answer to each read."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

from .hive import Body

Place = tuple[str, str]
"""Namespace and key."""

CONTENT = (
    "memory_type",
    "metadata",
    "importance",
    "valid_from",
    "valid_to",
    "expires_at",
    "source",
    "index",
    "copied_from",
)
BLANK: Body = dict.fromkeys(CONTENT) | {"memory_type": "semantic", "metadata": {}}


class No(Exception):
    """A refusal, by its code."""

    def __init__(self, code: int) -> None:
        super().__init__(str(code))
        self.code = code


def merged(target: Any, patch: Any) -> Any:
    """Apply a merge patch, nearly word for word as in RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    result: Body = cast("Body", copy.deepcopy(cast("Any", target))) if isinstance(target, dict) else {}
    for name, value in cast("Body", patch).items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


@dataclass
class PastModel:
    """The model. Times have the wire format, which compares as text; a version's own time is set once it is known."""

    versions: dict[Place, list[Body]] = field(default_factory=dict[Place, list[Body]])
    last: dict[Place, int] = field(default_factory=dict[Place, int])
    """The last version of each place, including an erasure."""

    def newest(self, place: Place) -> Body | None:
        versions = self.versions.get(place)
        return versions[-1] if versions else None

    def living(self, place: Place, at: str) -> Body | None:
        """Return the version that lived at a place at a moment, or None."""
        found = [version for version in self.versions.get(place, []) if version["updated_at"] <= at]
        return found[-1] if found and lives(found[-1], at) else None

    def snapshot(self, prefix: str, at: str) -> list[Body]:
        """Return the memories at and below a prefix, by namespace and key."""
        return [memory for place in self.below(prefix) if (memory := self.living(place, at)) is not None]

    def below(self, prefix: str) -> list[Place]:
        found = [place for place in self.versions if f"{place[0]}:".startswith(f"{prefix}:")]
        return sorted(found, key=lambda place: (place[0].split(":"), place[1]))

    def diff(self, prefix: str, start: str, end: str) -> Iterator[tuple[Place, Body | None, Body | None]]:
        """Yield the differences in content between two moments."""
        for place in self.below(prefix):
            before, after = self.living(place, start), self.living(place, end)
            if (before is None) is not (after is None) or (before and after and said(before) != said(after)):
                yield place, before, after

    def put(self, place: Place, now: str, agent: str, fields: Body) -> Body:
        memory = self.living(place, now)
        self._expect(place, memory, fields)
        version = {**BLANK, "created_by": agent, "created_at": None} if memory is None else dict(memory)
        given = {name: value for name, value in fields.items() if name in CONTENT}
        for name in ("metadata", "memory_type"):
            if given.get(name) is None:
                given.pop(name, None)
        version |= {**given, "value": fields["value"]}
        start, end = version["valid_from"], version["valid_to"]
        if start is not None and end is not None and start >= end:
            raise No(40001)
        return self._append(place, agent, "put", version)

    def patch(self, place: Place, now: str, agent: str, fields: Body) -> Body:
        memory = self._require(place, now)
        self._expect(place, memory, fields)
        return self._append(place, agent, "patch", {**memory, "value": merged(memory["value"], fields["patch"])})

    def delete(self, place: Place, now: str, agent: str, fields: Body) -> Body:
        memory = self._require(place, now)
        self._expect(place, memory, fields)
        return self._append(place, agent, "delete", {**memory, "value": None, "deleted": True})

    def expire(self, place: Place) -> Body:
        newest = self.newest(place)
        assert newest is not None
        return self._append(place, "hivemem", "expire", {**newest, "value": None, "deleted": True})

    def restore(self, place: Place, now: str, agent: str, fields: Body) -> Body:
        newest = self.newest(place)
        if newest is None:
            raise No(40401)
        memory = self.living(place, now)
        self._expect(place, memory, fields)
        wanted = fields.get("version")
        if wanted is None:
            if memory is not None:
                raise No(40001)
            past = next(version for version in reversed(self.versions[place]) if not version["deleted"])
            past = {**newest, "value": past["value"]}
        else:
            found = [version for version in self.versions[place] if version["version"] == wanted]
            if not found or found[0]["deleted"]:
                raise No(40401)
            past = found[0]
        return self._append(place, agent, "restore", timely({**past, "deleted": False}, now))

    def fork(self, namespace: str, into: str, at: str, now: str, agent: str) -> list[Body]:
        if f"{namespace}:".startswith(f"{into}:") or f"{into}:".startswith(f"{namespace}:"):
            raise No(40001)
        if self.snapshot(into, now):
            raise No(40901)
        copies: list[Body] = []
        for memory in self.snapshot(namespace, at):
            place = (into + memory["namespace"][len(namespace) :], memory["key"])
            version = {**timely(memory, now), "created_by": agent, "created_at": None}
            names = ("namespace", "key", "version", "created_by", "created_at", "updated_by", "updated_at")
            version["copied_from"] = {name: memory[name] for name in names}
            copies.append(self._append(place, agent, "fork", version))
        return copies

    def erase(self, place: Place) -> int:
        """Erase the memory and return its number of versions."""
        versions = self.versions.pop(place, [])
        if versions:
            self.last[place] += 1
        return len(versions)

    def _require(self, place: Place, now: str) -> Body:
        memory = self.living(place, now)
        if memory is None:
            raise No(40401)
        return memory

    def _expect(self, place: Place, memory: Body | None, fields: Body) -> None:
        expected = fields.get("expect_version")
        if expected == 0 and memory is not None:
            raise No(40902)
        if expected and expected != self.last.get(place, 0):
            raise No(40902)

    def _append(self, place: Place, agent: str, operation: str, version: Body) -> Body:
        self.last[place] = self.last.get(place, 0) + 1
        made = {
            "value": None,
            "deleted": False,
            **copy.deepcopy(version),
            "namespace": place[0],
            "key": place[1],
            "version": self.last[place],
            "operation": operation,
            "updated_by": agent,
            "updated_at": None,
        }
        self.versions.setdefault(place, []).append(made)
        return made


def committed(version: Body, at: str) -> None:
    """Set the time of a version."""
    version["updated_at"] = at
    if version["created_at"] is None:
        version["created_at"] = at


def lives(version: Body, at: str) -> bool:
    return not version["deleted"] and not (version["expires_at"] is not None and version["expires_at"] <= at)


def timely(version: Body, now: str) -> Body:
    """Return the version without an expiry that has passed."""
    expires_at = version["expires_at"]
    return {**version, "expires_at": None} if expires_at is not None and expires_at <= now else version


def said(version: Body) -> Body:
    """Return the content of a version, without its author, its time and its origin as a copy."""
    names = (
        "value",
        "memory_type",
        "metadata",
        "importance",
        "valid_from",
        "valid_to",
        "expires_at",
        "source",
        "index",
    )
    return {name: version[name] for name in names}


def shown(version: Body) -> Body:
    """Return a version as `get` answers it, without its digest."""
    return {name: value for name, value in version.items() if name != "operation"}
