"""The periods that a question names in English: `yesterday`, `in May`, `on 13 October 2023`, `three weeks ago`."""

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import chain, islice
from typing import Final, NamedTuple, Protocol

DAY_MICROSECONDS: Final = 86_400_000_000
PERIODS: Final = 8
"""How many periods of a question count."""

SLACK_DAYS: Final = 1
"""What happened late on a day elsewhere has the date of the next day in UTC."""

_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_COUNTS: Final = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6}
_EPOCH: Final = date(1970, 1, 1).toordinal()
_LAST: Final = date.max.toordinal()

_MONTH: Final = (
    "(?P<month>jan(?:uary)?|feb(?:ruary)?|march|april|may|june|july|aug(?:ust)?|sept(?:ember)?|oct(?:ober)?"
    "|nov(?:ember)?|dec(?:ember)?)"
)
_DAY: Final = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR: Final = r"(?P<year>(?:19|20)\d\d)"
_DATES: Final = tuple(
    re.compile(rf"\b{form}\b", re.IGNORECASE)
    for form in (
        rf"{_YEAR}-(?P<number>\d\d)(?:-{_DAY})?",
        rf"{_DAY}(?: of)? {_MONTH}(?:,? {_YEAR})?",
        rf"{_MONTH} {_DAY}(?:,? {_YEAR})?",
        # A month alone follows one of these words: `may` and `march` are verbs, too.
        rf"(?:in|during|of|this|last|early|late|mid)[ -]{_MONTH}(?! \d)(?:,? {_YEAR})?",
        rf"{_MONTH},? {_YEAR}",
        rf"(?:in|during|of) {_YEAR}(?!-)",
    )
)
_RELATIVE: Final = re.compile(
    r"\b(?:(?P<before>(?:the )?day before )?(?P<day>yesterday|today|tonight)"
    r"|(?P<which>this|last) (?P<unit>weekend|week|month|year|(?:mon|tues|wednes|thurs|fri|satur|sun)day)"
    rf"|(?P<count>\d{{1,3}}|{'|'.join(_COUNTS)}) (?P<units>day|week|month|year)s? ago)\b",
    re.IGNORECASE,
)
_OUTSIDE: Final = re.compile(r"\b(?:before|after|since|until|by)(?: the)? $", re.IGNORECASE)
"""A period after one of these words is not the time that the question is about."""
_OUTSIDE_CHARACTERS: Final = 12
"""The length of the longest of these words, with what may stand around it."""


class Period(Protocol):
    def has(self, day: date, /) -> bool: ...


class Days(NamedTuple):
    """All days from the first to the last."""

    first: date
    last: date

    def has(self, day: date) -> bool:
        return self.first <= day <= self.last


class CalendarDate(NamedTuple):
    """A date of which parts may be left open: a month of any year, a whole year."""

    year: int | None
    month: int | None
    day: int | None

    def has(self, day: date) -> bool:
        theirs = (day.year, day.month, day.day)
        return all(mine in (None, part) for mine, part in zip(self, theirs, strict=True))


def periods_of(question: str, now: int) -> tuple[Period, ...]:
    """Return the periods that a question names, given the time now in microseconds since 1970."""
    today = datetime.fromtimestamp(now / 1_000_000, UTC).date()
    return tuple(dict.fromkeys(islice(chain(_dates(question), _relative(question, today)), PERIODS)))


def in_periods(periods: tuple[Period, ...], moment: int) -> bool:
    """Return whether a moment, in microseconds since 1970, is in one of the periods or a day away from it."""
    ordinal = _EPOCH + moment // DAY_MICROSECONDS
    near = range(max(ordinal - SLACK_DAYS, 1), min(ordinal + SLACK_DAYS, _LAST) + 1)
    return any(period.has(date.fromordinal(day)) for day in near for period in periods)


def _dates(question: str) -> Iterator[CalendarDate]:
    read: set[int] = set()
    for form in _DATES:
        for match in form.finditer(question):
            # A later form reads a part of a date as a longer period: the month of a day.
            if read.isdisjoint(range(*match.span())) and not _is_outside(question, match):
                yield _calendar_date(match)
            read.update(range(*match.span()))


def _is_outside(question: str, match: re.Match[str]) -> bool:
    return _OUTSIDE.search(question, max(match.start() - _OUTSIDE_CHARACTERS, 0), match.start()) is not None


def _calendar_date(match: re.Match[str]) -> CalendarDate:
    parts = match.groupdict()
    month = parts.get("number") or (parts.get("month") and _MONTHS.index(parts["month"][:3].lower()) + 1)
    return CalendarDate(*[None if part is None else int(part) for part in (parts.get("year"), month, parts.get("day"))])


def _relative(question: str, today: date) -> Iterator[Period]:
    for match in _RELATIVE.finditer(question):
        if _is_outside(question, match):
            continue
        parts = {name: (part or "").lower() for name, part in match.groupdict().items()}
        if parts["day"]:
            day = today - timedelta((parts["day"] == "yesterday") + bool(parts["before"]))
            yield Days(day, day)
        elif parts["unit"]:
            yield _this_or_last(parts["unit"], today, is_last=parts["which"] == "last")
        else:
            count = _COUNTS.get(parts["count"]) or int(parts["count"])
            yield _ago(count, parts["units"], today)


def _this_or_last(unit: str, today: date, *, is_last: bool) -> Period:
    monday = today - timedelta(today.weekday() + 7 * is_last)
    if unit == "week":
        return Days(monday, monday + timedelta(6))
    if unit == "weekend":
        return Days(monday + timedelta(5), monday + timedelta(6))
    if unit in ("month", "year"):
        return _ago(int(is_last), unit, today)
    day = today - timedelta((today.weekday() - _WEEKDAYS.index(unit[:3])) % 7 or 7 * is_last)
    return Days(day, day)


def _ago(count: int, unit: str, today: date) -> Period:
    if unit == "day":
        return Days(today - timedelta(count), today - timedelta(count))
    if unit == "week":
        return Days(today - timedelta(7 * count + 3), today - timedelta(7 * count - 3))
    if unit == "month":
        year, month = divmod(today.year * 12 + today.month - 1 - count, 12)
        return CalendarDate(year, month + 1, None)
    return CalendarDate(today.year - count, None, None)
