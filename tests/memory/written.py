"""The promises of the memory service's writes, as a plain model."""

import copy
from dataclasses import dataclass, field
from typing import Any, cast

Body = dict[str, Any]
KEPT = ("memory_type", "metadata", "importance", "valid_from", "valid_to", "source", "index")
DEFAULTS: Body = {"memory_type": "semantic", "metadata": {}, **dict.fromkeys(KEPT[2:])}
REMOVABLE = KEPT[2:]


@dataclass
class Key:
    """All versions of one key, as `get` would show them."""

    versions: list[Body] = field(default_factory=list[Body])

    @property
    def newest(self) -> Body | None:
        return self.versions[-1] if self.versions else None

    @property
    def living(self) -> Body | None:
        return self.newest if self.newest is not None and not self.newest["deleted"] else None


@dataclass
class Model:
    """Answers each write with its version, or with the code of its refusal."""

    keys: dict[str, Key] = field(default_factory=dict[str, Key])

    def key(self, name: str) -> Key:
        return self.keys.setdefault(name, Key())

    def write(self, operation: str, agent: str, name: str, fields: Body) -> tuple[int, bool] | int:
        key = self.key(name)
        if operation != "put" and key.living is None and (operation != "restore" or key.newest is None):
            return 40401
        expected = fields.get("expect_version")
        if expected is not None and not self._holds(key, expected):
            return 40902
        made: Body | int = getattr(self, f"_{operation}")(key, agent, fields)
        if isinstance(made, int):
            return made
        created = operation == "put" and key.living is None
        version = len(key.versions) + 1
        key.versions.append({**made, "version": version, "updated_by": agent, "operation": operation})
        return version, created

    def _holds(self, key: Key, expected: int) -> bool:
        return key.living is None if expected == 0 else expected == len(key.versions)

    def _put(self, key: Key, agent: str, fields: Body) -> Body | int:
        before = key.living or {**DEFAULTS, "created_by": agent}
        made = {name: before[name] for name in (*KEPT, "created_by")}
        for name in KEPT:
            if name in fields and (fields[name] is not None or name in REMOVABLE):
                made[name] = fields[name]
        if made["valid_from"] is not None and made["valid_to"] is not None and made["valid_from"] >= made["valid_to"]:
            return 40001
        return {**made, "value": fields["value"], "deleted": False}

    def _patch(self, key: Key, agent: str, fields: Body) -> Body:
        assert key.living is not None
        return {**key.living, "value": _patched(copy.deepcopy(key.living["value"]), fields["patch"])}

    def _delete(self, key: Key, agent: str, fields: Body) -> Body:
        assert key.living is not None
        return {**key.living, "value": None, "deleted": True}

    def _restore(self, key: Key, agent: str, fields: Body) -> Body | int:
        version = fields.get("version")
        if version is None:
            if key.living is not None:
                return 40001
            version = len(key.versions) - 1
        if not 0 < version <= len(key.versions) or key.versions[version - 1]["deleted"]:
            return 40401
        return key.versions[version - 1]


def _patched(value: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    merged: Body = cast("Body", value) if isinstance(value, dict) else {}
    for name, change in cast("Body", patch).items():
        if change is None and name in merged:
            del merged[name]
        elif change is not None:
            merged[name] = _patched(merged.get(name), change)
    return merged
