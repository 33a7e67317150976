"""Regular expressions that callers write: RE2's, and how large they are once they are compiled.

RE2 never backtracks: at worst it takes the length of the text times the number of the pattern's instructions. Counted
repetition makes that number far larger than the pattern, so it is estimated here.
"""

import re
from functools import lru_cache
from typing import Any, Final

import re2 as untyped_re2

re2: Any = untyped_re2

_CLASS: Final = re.compile(r"\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\]", re.DOTALL)
_COUNT: Final = re.compile(r"\{(\d{1,4})(?:,(\d{0,4}))?\}")
_UNICODE_CLASS: Final = 256
_ANY_CHARACTER: Final = 4


_OPTIONS: Final = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.never_capture = True


class InvalidPattern(ValueError):
    """The text is no regular expression of RE2."""


@lru_cache(maxsize=16)
def compiled_pattern(text: str) -> Any:
    """Return a compiled pattern, which takes up to 8 MiB of memory."""
    re2.purge()  # its own cache would keep 128 of them
    try:
        return re2.compile(text, _OPTIONS)
    except re2.error as error:
        reason = error.args[0]
        raise InvalidPattern(reason.decode() if isinstance(reason, bytes) else str(reason)) from error


def instructions(pattern: str) -> int:
    """About as many as there are at most: the size of each atom times how often it is repeated."""
    groups = [0]
    last = place = 0
    while place < len(pattern):
        character = pattern[place]
        width = 1
        if character == "(":
            groups.append(0)
            last = 0
        elif character == ")" and len(groups) > 1:
            last = groups.pop() + 2
            groups[-1] += last
        elif character == "{" and (count := _COUNT.match(pattern, place)):
            repeated = last * max(int(count[1]), int(count[2] or 0), 1)
            groups[-1] += repeated - last
            last = repeated
            width = count.end() - place
        else:
            last, width = _atom(pattern, place)
            groups[-1] += last
        place += width
    return sum(groups) + 1


def _atom(pattern: str, place: int) -> tuple[int, int]:
    """The instructions of the atom at a place, and its length in the pattern."""
    character = pattern[place]
    if character == "\\":
        width = 2
        if pattern[place + 1 : place + 2] in ("p", "P"):
            width = 2 if pattern[place + 2 : place + 3] != "{" else pattern.find("}", place) - place + 1
            return _UNICODE_CLASS, max(width, 2)
        return _ANY_CHARACTER, width
    if character == "[":
        found = _CLASS.match(pattern, place)
        if found is None:  # an invalid pattern, whose rest says nothing
            return 1, len(pattern) - place
        negated = 2 * _ANY_CHARACTER
        return negated + len(found[0]) + _UNICODE_CLASS * found[0].lower().count("\\p"), len(found[0])
    return (_ANY_CHARACTER if character == "." or not character.isascii() else 1), 1
