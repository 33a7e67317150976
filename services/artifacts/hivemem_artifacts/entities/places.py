"""The id of an artifact in the ledger: its session and its name, so that what a session has stands together.

Neither holds control characters, and no name holds the last of all code points, which is none that anybody may use.
"""

from typing import Final

_BETWEEN: Final = "\x01"
_LAST: Final = "\U0010ffff"


def place_of(session_id: str, name: str) -> str:
    return f"{session_id}{_BETWEEN}{name}"


def session_and_name(place: str) -> tuple[str, str]:
    session_id, _, name = place.partition(_BETWEEN)
    return session_id, name


def within(session_id: str, prefix: str = "") -> tuple[str, str]:
    """The range of all places of a session whose name begins so: the first one, and the end, which is not in it."""
    start = place_of(session_id, prefix)
    return start, start + _LAST
