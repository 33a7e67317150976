"""Redaction of JSON values by a compiled set of rules."""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import count, groupby
from typing import Any, Final

from hivemem_contracts.errors import InvalidRequest
from hivemem_contracts.nearest_name import suggestion
from hivemem_runtime.redaction.own_patterns import OwnPattern
from hivemem_runtime.redaction.rules import GROUPS, RULE_NAMES, RULES, Hint, Rule

Found = dict[str, int]

OWN_PATTERNS: Final = 32

_MARK_START: Final = "[redacted:"
_ROUNDS: Final = 4
"""A mark changes what the text around it looks like; this many passes find what that uncovers."""
_SHORTEST: Final = 6  # a mail address
_LEAST_OF_CARDS: Final = 10**12


class Redactor:
    """Replaces what its rules find by marks such as `[redacted:email]`. One instance serves any number of values."""

    def __init__(self, rules: Iterable[str | Mapping[str, str]], field: str = "redact") -> None:
        """Take names of rules and groups, and own rules `{name, pattern}`.

        Raises `InvalidRequest`, naming the `field`, for others."""
        named: set[str] = set()
        own: dict[str, OwnPattern] = {}
        for rule in rules:
            if isinstance(rule, str):
                named.update(_members(rule, field))
            else:
                _add_own(own, rule, field)
        scans: list[tuple[Hint, Sequence[_Scan | _OwnScan]]] = [
            (hint, [_Scan(list(rules)) for _, rules in groupby(sharing, _scanned_together)])
            for hint, sharing in groupby((rule for rule in RULES if rule.name in named), lambda rule: rule.hint)
        ]
        marks = re.compile("|".join(re.escape(_mark(name)) for name in (*own, *RULE_NAMES)))
        scans += [(_any_text, [_OwnScan(rule, _mark(name), marks)]) for name, rule in own.items()]
        self._scans = scans
        self._shortest = 1 if own else _SHORTEST
        self._finds_cards = "card" in named

    def redact(self, value: Any) -> tuple[Any, dict[str, int]]:
        """Return a JSON value without what the rules find, and how often each found something.

        Texts, keys of objects and integers are searched. A value that holds nothing is returned as it is, so a second
        redaction changes nothing.
        """
        found: Found = {}
        redacted = self._value(value, found)
        return (redacted if found else value), found

    def _value(self, value: Any, found: Found) -> Any:
        kind = value.__class__
        if kind is str:
            return self._text(value, found)
        if kind is dict:
            return self._object(value, found)
        if kind is list:
            return [self._value(item, found) for item in value]
        if kind is int and self._finds_cards and value >= _LEAST_OF_CARDS:
            text = str(value)
            redacted = self._text(text, found)
            return value if redacted == text else redacted
        return value

    def _object(self, value: dict[str, Any], found: Found) -> dict[str, Any]:
        redacted: dict[str, Any] = {}
        for key, item in value.items():
            name = self._text(key, found)
            if name != key and (name in redacted or name in value):
                name = next(other for n in count(2) if (other := f"{name} {n}") not in redacted and other not in value)
            redacted[name] = self._value(item, found)
        return redacted

    def _text(self, text: str, found: Found) -> str:
        if len(text) < self._shortest:
            return text
        for _ in range(_ROUNDS):
            before = text
            for hint, scans in self._scans:
                if hint(text):
                    for scan in scans:
                        text = scan.replaced(text, found)
            if text == before:
                break
        return text


class _Scan:
    """One pass over a text, for rules that have a hint in common."""

    def __init__(self, rules: list[Rule]) -> None:
        self._search = re.compile("|".join(rule.pattern for rule in rules)).search
        self._check = rules[0].check

    def replaced(self, text: str, found: Found) -> str:
        pieces: list[str] = []
        copied = place = 0
        while match := self._search(text, place):
            name = str(match.lastgroup)
            start, end = match.span(name)
            if self._check is not None:
                end = start + self._check(match[name])
            if end == start:
                place = match.start() + 1
                continue
            pieces += text[copied:start], _mark(name)
            found[name] = found.get(name, 0) + 1
            copied = place = end
        return "".join([*pieces, text[copied:]]) if pieces else text


class _OwnScan:
    """One pass for a pattern of the user's, which leaves marks alone."""

    def __init__(self, rule: OwnPattern, mark: str, marks: re.Pattern[str]) -> None:
        self._rule, self._mark, self._marks = rule, mark, marks

    def replaced(self, text: str, found: Found) -> str:
        if _MARK_START not in text:
            return self._between_marks(text, found)
        pieces: list[str] = []
        copied = 0
        for match in self._marks.finditer(text):
            pieces += self._between_marks(text[copied : match.start()], found), match[0]
            copied = match.end()
        return "".join([*pieces, self._between_marks(text[copied:], found)])

    def _between_marks(self, text: str, found: Found) -> str:
        redacted = self._rule.replaced(text)
        if redacted != text:
            name = self._mark[len(_MARK_START) : -1]
            found[name] = found.get(name, 0) + redacted.count(self._mark)
        return redacted


def _any_text(text: str) -> bool:
    return text != ""


def _mark(name: str) -> str:
    return f"{_MARK_START}{name}]"


def _members(name: str, field: str) -> tuple[str, ...]:
    """Return the rules of a group, or the one rule of this name."""
    if name not in RULE_NAMES:
        near = suggestion(name, RULE_NAMES)
        raise InvalidRequest(f"{field}: there is no rule {name!r}{near}; own rules are {{name, pattern}}", field=field)
    return GROUPS.get(name, (name,))


def _add_own(own: dict[str, OwnPattern], rule: Mapping[str, str], field: str) -> None:
    if set(rule) != {"name", "pattern"}:
        raise InvalidRequest(f"{field}: {dict(rule)!r} is neither a name nor {{name, pattern}}", field=field)
    name = rule["name"]
    if name in RULE_NAMES or name in own:
        raise InvalidRequest(f"{field}: there is a rule {name!r} already", field=field)
    if len(own) == OWN_PATTERNS:
        raise InvalidRequest(f"{field}: {name!r} is one own rule more than {OWN_PATTERNS}", field=field)
    own[name] = OwnPattern(name, rule["pattern"], _mark(name), field)


def _scanned_together(rule: Rule) -> str:
    """Rules with a check are searched alone: a candidate that it refuses may be a find of another rule."""
    return rule.name if rule.check else ""
