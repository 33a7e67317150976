"""Regular expressions of RE2's syntax, matched by the engine of Rust that comes with pydantic.

Like RE2, it never backtracks: at worst it takes the length of the text times the size of the pattern. The syntaxes
differ, so a pattern is parsed by the rules of RE2 and written anew in the other one's plainest form.
"""

import re
from functools import lru_cache
from typing import Any, Final, NamedTuple, cast

from pydantic_core import SchemaError, SchemaValidator, core_schema

from hivemem_runtime.expressions.budget import EvaluationFailed

_MOST_REPETITIONS: Final = 1_000
_MOST_GROUPS_WITHIN_GROUPS: Final = 200
_LAST_CHARACTER: Final = 0x10FFFF
_COUNT: Final = re.compile(r"\{([0-9]+)(,([0-9]*))?\}")
_FLAGS: Final = re.compile(r"\(\?([imsU]*)(?:-([imsU]+))?([:)])")
_NAMED: Final = re.compile(r"\(\?P?<(\w+)>")
_NUMBER: Final = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|x\{([0-9A-Fa-f]+)\}|(0[0-7]{0,2}|[1-7][0-7]{1,2}))")
_PROPERTY: Final = re.compile(r"\\([pP])(?:\{(\^?)(\w+)\}|([A-Z]))")
_POSIX: Final = re.compile(r"\[:(\^?)([a-z]+):\]")
_SIMPLE: Final = {"a": 7, "f": 12, "t": 9, "n": 10, "r": 13, "v": 11}
_CLASSES: Final = {"d": "0-9", "s": r"\t\n\x0C\r\x20", "w": "0-9A-Za-z_"}
_POSIX_CLASSES: Final = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "ascii": r"\x00-\x7F", "blank": r"\t\x20", "cntrl": r"\x00-\x1F\x7F",
    "digit": "0-9", "graph": "!-~", "lower": "a-z", "print": r"\x20-~", "punct": r"!-/:-@\[-`{-~",
    "space": r"\t-\r\x20", "upper": "A-Z", "word": "0-9A-Za-z_", "xdigit": "0-9A-Fa-f",
}  # fmt: skip
_CATEGORY: Final = re.compile("Any|C[cfos]?|L[lmotu]?|M[cen]?|N[dlo]?|P[cdefios]?|S[ckmo]?|Z[lps]?")
_SCRIPT: Final = re.compile(r"[A-Z][a-z]{2,}(?:_[A-Za-z][a-z]*)*")


class Pattern:
    """A compiled pattern. Raises `EvaluationFailed` for one that RE2 does not take."""

    def __init__(self, text: str) -> None:
        try:
            schema = core_schema.str_schema(strict=True, pattern=_Translator(text).written())
            self._validator = SchemaValidator(schema, cast("Any", {"regex_engine": "rust-regex"}))
        except SchemaError as error:
            raise EvaluationFailed("a regular expression that cannot be compiled") from error

    def matches(self, text: str) -> bool:
        """Return whether the pattern matches anywhere in a text."""
        return self._validator.isinstance_python(text)


@lru_cache(maxsize=256)
def pattern(text: str) -> Pattern:
    return Pattern(text)


class _Group(NamedTuple):
    """A group that is open: what it began with, and the largest product of repetitions within each other so far."""

    start: int
    repetitions: int


class _Translator:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._written: list[str] = []
        self._groups = [_Group(0, 1)]
        # The product of the repetitions in the last atom; 0 where no atom is that a sign could repeat.
        self._atom = 0

    def written(self) -> str:
        text = self._text
        while self._at < len(text):
            character = text[self._at]
            if character in "*+?" or (character == "{" and _COUNT.match(text, self._at)):
                self._repetition()
            elif character == "(":
                self._open()
            elif character == ")":
                self._close()
            elif character == "|":
                self._emit("|", 1, atom=0)
            elif character == "[":
                self._class()
            elif character == "\\":
                self._escape()
            else:
                self._emit(character if character in "^$." else _literal(ord(character)), 1)
        if len(self._groups) > 1:
            raise _invalid("a group has no end")
        return "".join(self._written)

    def _emit(self, written: str, width: int, atom: int = 1) -> None:
        self._written.append(written)
        self._at += width
        self._atom = atom

    def _repetition(self) -> None:
        if not self._atom:
            raise _invalid("a sign repeats nothing")
        count = _COUNT.match(self._text, self._at)
        width = count.end() - self._at if count else 1
        atom = self._atom
        if count:
            least = int(count[1][:5])
            most = int(count[3][:5]) if count[3] else least
            if max(least, most) > _MOST_REPETITIONS or most < least:
                raise _invalid("a repetition is too large, or ends before it begins")
            atom *= max(most, 1)
            if atom > _MOST_REPETITIONS:
                raise _invalid("repetitions within each other are too large")
        written = self._text[self._at : self._at + width]
        if self._text[self._at + width : self._at + width + 1] == "?":
            written, width = f"{written}?", width + 1
        # A group of its own: `^*` repeats here, too, and no sign repeats a repetition.
        self._emit(written, width, atom=0)
        group = self._groups[-1]
        self._groups[-1] = group._replace(repetitions=max(group.repetitions, atom))

    def _open(self) -> None:
        text, at = self._text, self._at
        if len(self._groups) > _MOST_GROUPS_WITHIN_GROUPS:
            raise _invalid("too many groups within each other")
        if text[at + 1 : at + 2] != "?":
            self._begin("(?:", 1)
        elif named := _NAMED.match(text, at):
            self._begin("(?:", named.end() - at)
        elif flags := _FLAGS.match(text, at):
            on = "".join(sorted(set(flags[1])))
            off = "".join(sorted(set(flags[2] or "")))
            on = "".join(flag for flag in on if flag not in off)
            written = f"(?{on}-{off}" if off else f"(?{on}"
            if flags[3] == ":":
                self._begin(f"{written}:", flags.end() - at)
            else:
                self._emit(f"{written})" if on or off else "", flags.end() - at, atom=0)
        else:
            raise _invalid("a group of this kind does not exist")

    def _begin(self, written: str, width: int) -> None:
        self._groups.append(_Group(len(self._written), 1))
        self._emit(written, width, atom=0)

    def _close(self) -> None:
        if len(self._groups) == 1:
            raise _invalid("a group ends that did not begin")
        inner = self._groups.pop().repetitions
        self._groups[-1] = self._groups[-1]._replace(repetitions=max(self._groups[-1].repetitions, inner))
        self._emit(")", 1, atom=inner)

    def _escape(self) -> None:
        text, at = self._text, self._at
        sign = text[at + 1 : at + 2]
        if sign == "Q":
            end = text.find("\\E", at + 2)
            quoted = text[at + 2 : end if end >= 0 else len(text)]
            for character in quoted:
                self._emit(_literal(ord(character)), 1)
            self._at = end + 2 if end >= 0 else len(text)
        elif sign in ("A", "z"):
            self._emit(f"\\{sign}", 2)
        elif sign in ("b", "B"):
            self._emit(rf"(?-u:\{sign})", 2)
        elif (found := self._shorthand()) is not None:
            self._emit(f"[{found}]", 0)
        else:
            self._emit(_literal(self._character()), 0)

    def _shorthand(self) -> str | None:
        """Read a class such as `\\d` or `\\pL`, as it is written within brackets, or return None."""
        text, at = self._text, self._at
        sign = text[at + 1 : at + 2]
        if sign.lower() in _CLASSES and sign:
            self._at += 2
            inner = _CLASSES[sign.lower()]
            return inner if sign.islower() else f"[^{inner}]"
        if sign not in ("p", "P"):
            return None
        match = _PROPERTY.match(text, at)
        name = (match[3] or match[4]) if match else ""
        category = _CATEGORY.fullmatch(name) is not None
        if match is None or not (category or _SCRIPT.fullmatch(name)):
            raise _invalid("no such class of characters")
        self._at = match.end()
        negated = (sign == "P") is not bool(match[2])
        if name == "Any":
            return r"[^\x00-\x{10FFFF}]" if negated else r"\x00-\x{10FFFF}"
        kind = "" if category else "Script="
        return f"\\{'P' if negated else 'p'}{{{kind}{name}}}"

    def _class(self) -> None:
        text = self._text
        self._at += 1
        negated = text[self._at : self._at + 1] == "^"
        self._at += negated
        items: list[str] = []
        first = True
        while first or text[self._at : self._at + 1] != "]":
            if self._at >= len(text):
                raise _invalid("a class of characters has no end")
            first = False
            items.append(self._class_item())
        self._emit(f"[{'^' if negated else ''}{''.join(items)}]", 1)

    def _class_item(self) -> str:
        text = self._text
        if posix := _POSIX.match(text, self._at):
            if posix[2] not in _POSIX_CLASSES:
                raise _invalid("no such class of characters")
            self._at = posix.end()
            inner = _POSIX_CLASSES[posix[2]]
            return f"[^{inner}]" if posix[1] else inner
        if text[self._at] == "\\" and (found := self._shorthand()) is not None:
            return found
        low = self._class_character()
        if text[self._at : self._at + 1] != "-" or text[self._at + 1 : self._at + 2] in ("]", ""):
            return _literal(low)
        self._at += 1
        high = self._class_character()
        if high < low:
            raise _invalid("a range of characters ends before it begins")
        return f"{_literal(low)}-{_literal(high)}"

    def _class_character(self) -> int:
        character = self._text[self._at]
        if character == "\\":
            return self._character()
        self._at += 1
        return ord(character)

    def _character(self) -> int:
        """Read an escape that is one character."""
        text, at = self._text, self._at
        if number := _NUMBER.match(text, at):
            digits = number[1] or number[2]
            code = int(number[3], 8) if digits is None else int(digits[-8:], 16) if len(digits) < 9 else -1
            self._at = number.end()
            if not 0 <= code <= _LAST_CHARACTER or 0xD800 <= code < 0xE000:
                raise _invalid("an escape is no character")
            return code
        sign = text[at + 1 : at + 2]
        self._at += 2
        if sign in _SIMPLE:
            return _SIMPLE[sign]
        if not sign or not sign.isascii() or sign.isalnum():
            raise _invalid("no such escape")
        return ord(sign)


def _literal(code: int) -> str:
    character = chr(code)
    return character if character.isascii() and character.isalnum() else f"\\x{{{code:X}}}"


def _invalid(why: str) -> EvaluationFailed:
    return EvaluationFailed(f"an invalid regular expression: {why}")
