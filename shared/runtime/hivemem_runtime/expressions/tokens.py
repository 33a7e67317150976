"""The tokens of an expression: names, signs, and literals with their values."""

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

INTEGER_MINIMUM: Final = -(1 << 63)
INTEGER_MAXIMUM: Final = (1 << 63) - 1
UNSIGNED_MAXIMUM: Final = (1 << 64) - 1

_TOKEN: Final = re.compile(
    r"""
    (?P<space>[\t\n\f\r ]++|//[^\n]*+)
    |(?P<raw>[bB]?[rR](?:'''(?:[^\\]|\\.)*?'''|\"""(?:[^\\]|\\.)*?\"""
        |'(?:[^'\\\n\r]|\\[^'\n\r])*+'|"(?:[^"\\\n\r]|\\[^"\n\r])*+"))
    |(?P<text>[bB]?(?:'''(?:[^\\]|\\.)*?'''|\"""(?:[^\\]|\\.)*?\"""
        |'(?:[^'\\\n\r]|\\[^\n\r])*+'|"(?:[^"\\\n\r]|\\[^\n\r])*+"))
    |(?P<double>[0-9]++\.[0-9]++(?:[eE][+-]?[0-9]++)?|[0-9]++[eE][+-]?[0-9]++|\.[0-9]++(?:[eE][+-]?[0-9]++)?)
    |(?P<uint>(?:0x[0-9a-fA-F]++|[0-9]++)[uU])
    |(?P<int>0x[0-9a-fA-F]++|[0-9]++)
    |(?P<name>[a-zA-Z_][a-zA-Z_0-9]*+)
    |(?P<quoted>`[a-zA-Z_0-9./\x20-]++`)
    |(?P<sign>&&|\|\||[=!<>]=|[-+*/%<>!?:.,()\[\]{}])
    """,
    re.VERBOSE | re.DOTALL,
)
_PREFIX: Final = re.compile(r"[bBrR]*")
_ESCAPE: Final = re.compile(
    r"\\(?:([abfnrtv\"'`\\?])|x([0-9a-fA-F]{2})|([0-3][0-7]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.)|\Z)", re.DOTALL
)
_SIMPLE: Final = dict(zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True))
_WORDS: Final = frozenset({"true", "false", "null", "in"})
_SURROGATES: Final = range(0xD800, 0xE000)
_LAST_CHARACTER: Final = 0x10FFFF


class Token(NamedTuple):
    """`kind` is `name`, `quoted`, `sign`, `end`, or the type of a literal."""

    kind: str
    text: str
    start: int
    value: Any = None


def refusal(text: str, place: int, why: str) -> ValueError:
    """Return the error for a place in an expression."""
    line = text.count("\n", 0, place) + 1
    column = place - text.rfind("\n", 0, place)
    return ValueError(f"line {line}, column {column}: {why}" if line > 1 else f"column {column}: {why}")


def tokens_of(text: str) -> list[Token]:
    """Return the tokens, the last of which has the kind `end`. `ValueError` says what is no token."""
    return [*_tokens(text), Token("end", "", len(text))]


def _tokens(text: str) -> Iterator[Token]:
    place = 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            what = "this text has no end" if text[place] in "'\"" else f"{text[place]!r} is not expected here"
            raise refusal(text, place, what)
        place = match.end()
        kind, found = str(match.lastgroup), match[0]
        if kind != "space":
            yield _token(text, kind, found, match.start())


def _token(text: str, kind: str, found: str, start: int) -> Token:
    match kind:
        case "raw" | "text":
            return _literal_text(text, found, start, raw=kind == "raw")
        case "quoted":
            return Token(kind, found[1:-1], start)
        case "name" if found in _WORDS:
            return Token("sign", found, start)
        case "int" | "uint":
            number = _integer(found.rstrip("uU"))
            if number > UNSIGNED_MAXIMUM and kind == "uint":
                raise refusal(text, start, f"{found[:40]} is larger than any unsigned number")
            return Token(kind, found, start, number)
        case _:
            return Token(kind, found, start, float(found) if kind == "double" else None)


def _integer(digits: str) -> int:
    """Return the number, or one beyond all limits for more digits than any number has."""
    significant = digits.removeprefix("0x").lstrip("0")
    if len(significant) > 20:
        return 1 << 65
    return int(significant or "0", 16 if digits.startswith("0x") else 10)


def _literal_text(text: str, found: str, start: int, *, raw: bool) -> Token:
    prefix = _PREFIX.match(found)
    assert prefix is not None, "the pattern matches anywhere"
    inner = found[prefix.end() :]
    width = 3 if inner[:3] in ("'''", '"""') and len(inner) > 5 else 1
    inner = inner[width:-width]
    if width == 3:
        inner = inner.replace("\r\n", "\n").replace("\r", "\n")
    is_bytes = prefix[0][:1] in ("b", "B")
    if not raw and "\\" in inner:
        return _unescaped(text, found, inner, start, is_bytes=is_bytes)
    try:
        encoded = inner.encode()
    except UnicodeEncodeError as error:
        raise refusal(text, start, "this text has half a surrogate pair") from error
    return Token("bytes", found, start, encoded) if is_bytes else Token("string", found, start, inner)


def _unescaped(text: str, found: str, inner: str, start: int, *, is_bytes: bool) -> Token:
    parts: list[Any] = []
    place = 0

    def add(piece: str, number: int | None = None) -> None:
        if is_bytes:
            parts.append(piece.encode() if number is None else bytes([number]))
        else:
            parts.append(piece if number is None else chr(number))

    try:
        for match in _ESCAPE.finditer(inner):
            add(inner[place : match.start()])
            place = match.end()
            simple, short, octal, four, eight, _ = match.groups()
            if simple:
                add(_SIMPLE.get(simple, simple))
            elif short or octal:
                add("", int(short, 16) if short else int(octal, 8))
            else:
                add("", _code_point(four or eight, is_bytes=is_bytes, escape=match[0]))
        add(inner[place:])
    except UnicodeEncodeError as error:
        raise refusal(text, start, "this text has half a surrogate pair") from error
    except ValueError as error:
        raise refusal(text, start, str(error)) from error
    if is_bytes:
        return Token("bytes", found, start, b"".join(parts))
    return Token("string", found, start, "".join(parts))


def _code_point(digits: str | None, *, is_bytes: bool, escape: str) -> int:
    number = int(digits, 16) if digits else -1
    if number < 0 or is_bytes or number > _LAST_CHARACTER or number in _SURROGATES:
        raise ValueError(f"the escape {escape!r} does not exist{' in bytes' if is_bytes else ''}")
    return number
