"""Patterns for text that match the same in the regular expressions of JavaScript, Go, Java, Python and Rust.

The engines disagree about `\\s`, and not all know `\\p{…}` or `\\uXXXX`. So a class lists its characters, the ones past
`\\xff` unescaped.
"""

from typing import Final

CONTROL: Final = r"\x00-\x1f\x7f-\x9f"
"""The control characters, for a character class."""

SPACE_OR_CONTROL: Final = r"\x00-\x20\x7f-\xa0" + "\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
"""White space and control characters, for a character class."""

NO_CONTROL: Final = rf"^[^{CONTROL}]+$"
NO_CONTROL_NO_EDGE_SPACE: Final = rf"^[^{SPACE_OR_CONTROL}](?:[^{CONTROL}]*[^{SPACE_OR_CONTROL}])?$"
ONE_SEGMENT: Final = rf"^[^{SPACE_OR_CONTROL}:](?:[^{CONTROL}:]*[^{SPACE_OR_CONTROL}:])?$"
STEP_ID: Final = r"^[A-Za-z_][A-Za-z0-9_.-]*$"
NOT_BLANK: Final = "[^\\x09-\\x0d\\x20\\x85\\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"

IN_WORDS: Final = {
    NO_CONTROL: "no control characters here",
    NO_CONTROL_NO_EDGE_SPACE: "no control characters here, and no space at either end",
    ONE_SEGMENT: "no ':' and no control characters here, and no space at either end",
    STEP_ID: "letters, digits, '_', '.' and '-' alone here, and no digit at the beginning",
    NOT_BLANK: "a text of white space alone",
}
"""What errors say of a text that does not match."""
