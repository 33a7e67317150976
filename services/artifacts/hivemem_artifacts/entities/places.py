"""The id of an artifact in the ledger: session and name, so that the artifacts of a session are one range.

Neither contains control characters, and no name contains the last code point, which is a noncharacter.
"""

from typing import Final

from hivemem_contracts.large_values import FOLDER

_BETWEEN: Final = "\x01"
_LAST: Final = "\U0010ffff"


def place_of(session_id: str, name: str) -> str:
    return f"{session_id}{_BETWEEN}{name}"


def session_and_name(place: str) -> tuple[str, str]:
    session_id, _, name = place.partition(_BETWEEN)
    return session_id, name


def is_value(place: str) -> bool:
    """Return whether an artifact is a large value of its session."""
    return session_and_name(place)[1].startswith(FOLDER)


def within(session_id: str, prefix: str = "") -> tuple[str, str]:
    """Return the range of places of a session whose names begin with a prefix, without its end."""
    start = place_of(session_id, prefix)
    return start, start + _LAST
