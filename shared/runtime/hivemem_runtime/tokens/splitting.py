"""How the encodings of OpenAI split a text into pieces before they merge bytes.

The patterns come from tiktoken, which needs Unicode classes that `re` does not have; here they are written out from
the Unicode tables of Python. Each matches in linear time: a run that fails one alternative is consumed by the next.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable
from functools import cache
from itertools import groupby
from typing import Final

Splitter = Callable[[str], list[str]]

_SPACE: Final = r"\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_ASCII_END: Final = 0x80
_BMP_END: Final = 0x10000
_ASTRAL: Final = re.compile(r"[\U00010000-\U0010ffff]")
_STAND_INS: Final = {
    "Lu": "\u0100",
    "Ll": "\u0101",
    "Lt": "\u01c5",
    "Lm": "\u02b0",
    "Lo": "\u01bb",
    "M": "\u0300",
    "N": "\u00b2",
}
_OTHER: Final = "\ue000"

_PATTERNS: Final = {
    "cl100k": (
        r"'(?i:[sdmt]|ll|ve|re)|(?:[^\r\n{L}{N}])?[{L}]+|[{N}]{1,3}| ?[^{S}{L}{N}]+[\r\n]*"
        r"|[{S}]*[\r\n]|[{S}]+(?![^{S}])|[{S}]+"
    ),
    "o200k": (
        r"[^\r\n{L}{N}]?[{U}]*[{W}]+(?i:'(?:s|t|re|ve|m|ll|d))?|[^\r\n{L}{N}]?[{U}]+[{W}]*(?i:'(?:s|t|re|ve|m|ll|d))?"
        r"|[{N}]{1,3}| ?[^{S}{L}{N}]+[\r\n/]*|[{S}]*[\r\n]+|[{S}]+(?![^{S}])|[{S}]+"
    ),
}
"""`L` letters, `N` numbers, `S` white space, `U` what may begin a capitalised word, `W` what may follow in it."""

_CATEGORIES: Final = {
    "L": ("Lu", "Ll", "Lt", "Lm", "Lo"),
    "N": ("Nd", "Nl", "No"),
    "U": ("Lu", "Lt", "Lm", "Lo", "Mn", "Mc", "Me"),
    "W": ("Ll", "Lm", "Lo", "Mn", "Mc", "Me"),
}


def splitter(encoding: str) -> Splitter:
    """Return the function that splits a text as `encoding` does. The tables are made when a text first needs them."""
    split_ascii = _pattern(encoding, _ASCII_END).findall

    def split(text: str) -> list[str]:
        if text.isascii():
            return split_ascii(text)
        pattern = _pattern(encoding, _BMP_END)
        shadow = _ASTRAL.sub(_stand_in, text)
        if shadow == text:
            return pattern.findall(text)
        return [text[match.start() : match.end()] for match in pattern.finditer(shadow)]

    return split


def _stand_in(match: re.Match[str]) -> str:
    """Return a character of the same class from the basic plane, since `re` is slow at classes beyond it."""
    category = unicodedata.category(match[0])
    return _STAND_INS.get(category) or _STAND_INS.get(category[0], _OTHER)


@cache
def _pattern(encoding: str, end: int) -> re.Pattern[str]:
    pattern = _PATTERNS[encoding].replace("{S}", _SPACE)
    for name in _CATEGORIES:
        pattern = pattern.replace(f"{{{name}}}", _class(name, end))
    return re.compile(pattern)


@cache
def _class(name: str, end: int) -> str:
    wanted = _CATEGORIES[name]
    return "".join(_ranges(point for point in range(end) if unicodedata.category(chr(point)) in wanted))


def _ranges(points: Iterable[int]) -> Iterable[str]:
    for _, run in groupby(enumerate(points), lambda numbered: numbered[1] - numbered[0]):
        first, *rest = (point for _, point in run)
        yield f"\\u{first:04x}-\\u{rest[-1] if rest else first:04x}"
