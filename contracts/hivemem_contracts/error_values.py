"""Names a wrong field and shows its value in an error: short and printable, whatever was sent."""

from collections.abc import Iterable
from typing import Final

from pydantic_core import PydanticSerializationError, to_json

_FIELD_CHARACTERS: Final = 256
_VALUE_CHARACTERS: Final = 120


def field_path(parts: Iterable[str | int]) -> str:
    """Return the place of a value in a body, such as `appends.3.event.type`; `body` for the body itself."""
    return _shortened(".".join(str(part) for part in parts), _FIELD_CHARACTERS) or "body"


def shown(value: object) -> str:
    """Return a value as JSON, or as Python writes it if it is not JSON, shortened if it is long."""
    try:
        text = to_json(value, inf_nan_mode="constants", fallback=repr).decode("utf-8")
    except PydanticSerializationError:  # half of a surrogate pair, such as an odd byte of a command line
        text = repr(value)
    return _shortened(text, _VALUE_CHARACTERS)


def _shortened(text: str, characters: int) -> str:
    cut = text if len(text) <= characters else text[:characters] + "…"
    if cut.isprintable():
        return cut
    return "".join(character if character.isprintable() else f"\\u{ord(character):04x}" for character in cut)
