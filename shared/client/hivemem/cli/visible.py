"""Makes text of others safe to print: no character of it moves the cursor, colours the screen or begins a line."""

import unicodedata
from typing import Final

_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_INVISIBLE: Final = {"Cc", "Cf", "Cs", "Zl", "Zp"}
_JOINERS: Final = "\u200c\u200d"
"""Invisible too, but many scripts and emoji need them, and they move nothing."""


def visible(text: str) -> str:
    """Return the text on one line, with control and formatting characters as the escapes of JSON."""
    return text if text.isprintable() else "".join(map(_shown, text))


def visible_lines(text: str) -> list[str]:
    """Return the lines of a text, each without control characters."""
    return [visible(line.expandtabs(4)) for line in text.replace("\r\n", "\n").split("\n")]


def _shown(character: str) -> str:
    if character in _JOINERS or unicodedata.category(character) not in _INVISIBLE:
        return character
    units = character.encode("utf-16-be", "surrogatepass")
    escaped = "".join(f"\\u{units[at] << 8 | units[at + 1]:04x}" for at in range(0, len(units), 2))
    return _SHORT.get(character, escaped)
