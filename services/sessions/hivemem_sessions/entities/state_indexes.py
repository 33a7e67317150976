"""The indexes of sessions by values of their own state."""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final

import orjson

from hivemem_contracts.limits import STATE_INDEXES
from hivemem_runtime.ledger.entity import Index
from hivemem_sessions.entities.state import State

_INTEGERS: Final = 2.0**63


def slot_field(slot: int) -> str:
    return f"state_{slot}"


def by_creation(slot: int) -> str:
    return f"state_{slot}_by_creation"


def by_update(slot: int) -> str:
    return f"state_{slot}_by_update"


STATE_INDEX_DECLARATIONS: Final = tuple(
    Index(name(slot), (slot_field(slot),), order)
    for slot in range(STATE_INDEXES)
    for name, order in ((by_creation, "created_at"), (by_update, "updated_at"))
)


def indexed_state(app_name: str, slots: Mapping[str, int], state: State) -> dict[str, int]:
    """Return the index fields of a session: one for each key in its state that has a scalar value."""
    return {
        slot_field(slot): index_value(app_name, key, state[key])
        for key, slot in slots.items()
        if key in state and _is_scalar(state[key])
    }


def index_value(app_name: str, key: str, value: Any) -> int:
    """Return what an index holds: 64 bits of a digest, so that values of any size fit. It includes the app and the key
    because a slot may have had another key before. Equal digests are no proof: compare with `has_value`."""
    digest = blake2b(_encoded([app_name, key, _plain(value)]), digest_size=8).digest()
    return int.from_bytes(digest, signed=True)


def has_value(state: State, key: str, value: Any) -> bool:
    """Return whether a state has a key with this scalar value. `1` and `1.0` are equal, `1` and `true` are not."""
    if key not in state or not _is_scalar(state[key]):
        return False
    return _encoded(_plain(state[key])) == _encoded(_plain(value))


def _is_scalar(value: Any) -> bool:
    return not isinstance(value, dict | list)


def _plain(value: Any) -> Any:
    """Return a number that is whole as an integer, because JSON has one type of number."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < _INTEGERS else value


def _encoded(value: Any) -> bytes:
    return orjson.dumps(value)
