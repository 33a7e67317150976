"""Event ids that the worker makes: each follows from the idempotency key of its append."""

from typing import Final

from hivemem_contracts.identifiers import derived_id

_MADE: Final = "Z"
"""No ULID begins with it, and none of the ids that agents make by themselves."""
_CHARACTERS: Final = 26


def made_event_id(request: str) -> str:
    return _MADE + derived_id(request)[1:]


def is_made(event_id: str) -> bool:
    return len(event_id) == _CHARACTERS and event_id.startswith(_MADE)


def request_of(event_id: str) -> str:
    """The name under which the ledger remembers the append that made an event id, for as long as its session."""
    return f"event|{event_id}"
