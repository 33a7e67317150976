"""Patterns that users give. RE2 matches them, which never backtracks, so none can hang."""

import re
from typing import Final

from hivemem_contracts.errors import InvalidRequest
from hivemem_runtime.expressions.patterns import InvalidPattern, compiled_pattern, instructions

NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,63}")
PATTERN_CHARACTERS: Final = 1_000
PATTERN_INSTRUCTIONS: Final = 1_000
"""The most steps that one character of a text can take."""

_PROBES: Final = ("", "a", " ")  # a pattern that can match the empty text somewhere does so in one of them


class OwnPattern:
    """A rule of the user's: the text that `pattern` matches becomes `mark`."""

    def __init__(self, name: str, pattern: str, mark: str, field: str) -> None:
        """Raises `InvalidRequest`, naming the `field`, for a name or a pattern that cannot be a rule."""
        self._name, self._field, self._mark = name, field, mark
        if not NAME.fullmatch(name):
            raise self._refused("a name has up to 64 lower-case letters, digits, _ and -, a letter first")
        if not 0 < len(pattern) <= PATTERN_CHARACTERS:
            raise self._refused(f"its pattern has {len(pattern)} characters, not 1 to {PATTERN_CHARACTERS}")
        if (size := instructions(pattern)) > PATTERN_INSTRUCTIONS:
            raise self._refused(f"its pattern has about {size} instructions, at most {PATTERN_INSTRUCTIONS}")
        try:
            self._pattern = compiled_pattern(pattern)
        except InvalidPattern as error:
            raise self._refused(f"its pattern {pattern!r} is not one of RE2: {error}") from error
        if any(match.start() == match.end() for probe in _PROBES for match in self._pattern.finditer(probe)):
            raise self._refused(f"its pattern {pattern!r} matches the empty text")

    def replaced(self, text: str) -> str:
        """Return the text with a mark in the place of each match."""
        return str(self._pattern.sub(self._marked, text))

    def _marked(self, match: object) -> str:
        """Return the mark as it is: a text would be a template, where a backslash is a reference."""
        return self._mark

    def _refused(self, reason: str) -> InvalidRequest:
        return InvalidRequest(f"{self._field}: {self._name!r}: {reason}", field=self._field)
