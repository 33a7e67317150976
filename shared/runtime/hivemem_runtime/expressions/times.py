"""Times and durations to the nanosecond: their texts and their parts."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from hivemem_runtime.expressions.budget import EvaluationFailed
from hivemem_runtime.expressions.tokens import INTEGER_MAXIMUM, INTEGER_MINIMUM

SECOND: Final = 1_000_000_000
FIRST_SECOND: Final = -62_135_596_800
LAST_SECOND: Final = 253_402_300_799
LONGEST_SECONDS: Final = 315_576_000_000
"""Ten thousand years."""

_FOUR_CENTURIES: Final = timedelta(days=146_097)
"""After this time, the days of the week and the leap years repeat."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TIME: Final = re.compile(
    r"\s*(\d{1,9})-(\d{1,2})-(\d{1,2})[Tt](\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d+))?"
    r"(?:[Zz]|([+-])(\d{2})(?::?(\d{2})(?::?(\d{2}))?)?)\s*",
    re.ASCII,
)
_DURATION_PART: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(h|m(?!s)|s|ms|us|ns)", re.ASCII)
_UNITS: Final = {"h": 3_600 * SECOND, "m": 60 * SECOND, "s": SECOND, "ms": 1_000_000, "us": 1_000, "ns": 1}
_LEAP_SECOND: Final = 60
_FIXED_ZONE: Final = re.compile(r"([+-]?)(\d{1,3}):(\d{1,3})", re.ASCII)
_DIGITS: Final = 18
_NAME: Final = re.compile(r"[A-Za-z0-9_+/-]{1,100}")


def checked_timestamp(nanoseconds: int) -> int:
    if FIRST_SECOND * SECOND <= nanoseconds < (LAST_SECOND + 1) * SECOND:
        return nanoseconds
    raise EvaluationFailed("a time outside the years 1 to 9999")


def checked_duration(nanoseconds: int) -> int:
    if abs(nanoseconds) < (LONGEST_SECONDS + 1) * SECOND:
        return nanoseconds
    raise EvaluationFailed("a duration over ten thousand years")


def saturated(nanoseconds: int) -> int:
    """Return what a sum makes of a duration: it counts nanoseconds of 64 bits."""
    return max(INTEGER_MINIMUM, min(INTEGER_MAXIMUM, nanoseconds))


def timestamp_of(text: str) -> int:
    """Return the nanoseconds since 1970 of an RFC 3339 text."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise EvaluationFailed("a text that is no time")
    year, month, day, hour, minute, second = (int(match[place]) for place in range(1, 7))
    sign, hours, minutes, seconds = match[8], *(int(match[place] or 0) for place in (9, 10, 11))
    if second > _LEAP_SECOND or hours > 23 or max(minutes, seconds) > 59:
        raise EvaluationFailed("a text that is no time")
    if not 0 < year <= 9999:
        raise EvaluationFailed("a time outside the years 1 to 9999")
    try:
        local = datetime(year, month, day, hour, minute, min(second, _LEAP_SECOND - 1), tzinfo=UTC) - _EPOCH
    except ValueError as error:
        raise EvaluationFailed("a text that is no time") from error
    offset = (hours * 3_600 + minutes * 60 + seconds) * (-1 if sign == "-" else 1)
    whole = local.days * 86_400 + local.seconds - offset
    if second == _LEAP_SECOND:
        return checked_timestamp((whole + 1) * SECOND)
    return checked_timestamp(whole * SECOND + int(((match[7] or "") + "0" * 9)[:9]))


def duration_of(text: str) -> int:
    """Return the nanoseconds of a text such as `1h30m` or `-1.5s`."""
    negative = text[:1] == "-"
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return 0
    total = place = 0
    while place < len(rest) or not rest:
        match = _DURATION_PART.match(rest, place)
        if match is None:
            raise EvaluationFailed("a text that is no duration")
        whole, _, fraction = match[1].partition(".")
        if len(whole.lstrip("0")) > _DIGITS:
            raise EvaluationFailed("a text that is no duration")
        unit, fraction = _UNITS[match[2]], fraction[:_DIGITS]
        total += int(whole or "0") * unit + int(fraction or "0") * unit // 10 ** len(fraction)
        place = match.end()
    return checked_duration(-total if negative else total)


def timestamp_text(nanoseconds: int) -> str:
    seconds, rest = divmod(nanoseconds, SECOND)
    moment = (_EPOCH + timedelta(seconds=seconds)).replace(tzinfo=None)
    return f"{moment.isoformat()}{_fraction(rest)}Z"


def duration_text(nanoseconds: int) -> str:
    seconds, rest = divmod(abs(nanoseconds), SECOND)
    return f"{'-' if nanoseconds < 0 else ''}{seconds}{_fraction(rest)}s"


def _fraction(nanoseconds: int) -> str:
    """Return a fraction with 3, 6 or 9 digits, or none."""
    digits = f"{nanoseconds:09}"
    for kept in (0, 3, 6):
        if not digits[kept:].strip("0"):
            return f".{digits[:kept]}" if kept else ""
    return f".{digits}"


_PARTS: Final[dict[str, Callable[[datetime], int]]] = {
    "getMonth": lambda local: local.month - 1,
    "getDate": lambda local: local.day,
    "getDayOfMonth": lambda local: local.day - 1,
    "getDayOfWeek": lambda local: local.isoweekday() % 7,
    "getDayOfYear": lambda local: local.timetuple().tm_yday - 1,
    "getHours": lambda local: local.hour,
    "getMinutes": lambda local: local.minute,
    "getSeconds": lambda local: local.second,
}


def timestamp_part(name: str, nanoseconds: int, zone: str) -> int:
    """Return a part of a time, such as `getHours`, in a time zone."""
    if name == "getMilliseconds":
        return nanoseconds % SECOND // 1_000_000
    moment = _EPOCH + timedelta(seconds=nanoseconds // SECOND)
    offset, years = _offset(zone, moment), 0
    # Python knows no time in the years 0 and 10000, which the first and the last day have in some zones.
    if moment.year == 1:
        moment, years = moment + _FOUR_CENTURIES, -400
    elif moment.year == 9999:
        moment, years = moment - _FOUR_CENTURIES, 400
    local = moment + offset
    return local.year + years if name == "getFullYear" else _PARTS[name](local)


def duration_part(name: str, nanoseconds: int) -> int:
    """Return a part of a duration; hours, minutes and seconds are all there are in it."""
    units = {"getHours": "h", "getMinutes": "m", "getSeconds": "s", "getMilliseconds": "ms"}
    if name not in units:
        raise EvaluationFailed(f"{name} takes no duration")
    count = abs(nanoseconds) // _UNITS[units[name]]
    if name == "getMilliseconds":
        count %= 1_000
    return -count if nanoseconds < 0 else count


def _offset(zone: str, moment: datetime) -> timedelta:
    if not zone:
        return timedelta()
    fixed = _FIXED_ZONE.fullmatch(zone)
    if fixed is not None:
        minutes = int(fixed[2]) * 60 + int(fixed[3])
        return timedelta(minutes=-minutes if fixed[1] == "-" else minutes)
    try:
        return moment.astimezone(_named(zone)).utcoffset() or timedelta()
    except OverflowError as error:
        raise EvaluationFailed("a time outside the years 1 to 9999") from error


@lru_cache(maxsize=64)
def _named(zone: str) -> ZoneInfo:
    if _NAME.fullmatch(zone) is None:
        raise EvaluationFailed("a time zone that does not exist")
    try:
        return ZoneInfo(zone)
    except (ValueError, OSError, KeyError) as error:
        raise EvaluationFailed("a time zone that does not exist") from error
