"""Event ids made by the worker. Each is derived from the idempotency key of its append."""

from typing import Final

from hivemem_contracts.identifiers import derived_id

_MADE: Final = "Z"
"""The first character of these ids. No ULID and no id made by an agent begins with it."""
_CHARACTERS: Final = 26


def made_event_id(request: str) -> str:
    return _MADE + derived_id(request)[1:]


def is_made(event_id: str) -> bool:
    return len(event_id) == _CHARACTERS and event_id.startswith(_MADE)


def request_of(event_id: str) -> str:
    """Return the idempotency key under which the ledger remembers the append of a derived event id until the session
    is erased."""
    return f"event|{event_id}"
