"""Ids, namespaces, keys and times: the basic types of every message."""

import os
import re
import time
import unicodedata
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import blake2b
from typing import Annotated, Final

from pydantic import AfterValidator, PlainSerializer, StringConstraints
from pydantic_core import PydanticCustomError

from hivemem_contracts.limits import ID_CHARACTERS, INBOX_PREFIX_BYTES

_ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_NO_CONTROL_NO_EDGE_SPACE: Final = r"^[^\p{Cc}\s](?:[^\p{Cc}]*[^\p{Cc}\s])?$"
NAMESPACE_ROOTS: Final = ("temp", "session", "user", "app", "project")

Id = Annotated[str, StringConstraints(min_length=1, max_length=ID_CHARACTERS, pattern=_NO_CONTROL_NO_EDGE_SPACE)]
"""An id, a ULID or the caller's own: 1-256 characters, no control characters, no space at either end."""

_JOINED_PART: Final = re.compile(r"(?:[^%/]|%25|%2F)+")


def join_id(*parts: str) -> str:
    """Return one id made of several, such as `travel/bob/s1` of an app, a user and a session.

    Different parts never give the same id: `%` and `/` within a part are written `%25` and `%2F`. Raises `ValueError`
    for an empty part, and for a result that is no id, for instance because it is too long.
    """
    if not parts or "" in parts:
        raise ValueError(f"parts: an id is joined from texts that are not empty, got {parts!r}")
    joined = "/".join(part.replace("%", "%25").replace("/", "%2F") for part in parts)
    if len(joined) > ID_CHARACTERS:
        raise ValueError(f"parts: joined they have {len(joined)} characters, an id has at most {ID_CHARACTERS}")
    if any(unicodedata.category(character) == "Cc" for character in joined) or joined != joined.strip():
        raise ValueError(f"parts: an id has no control characters, and no space at either end, got {parts!r}")
    return joined


def split_id(joined: str) -> tuple[str, ...]:
    """Return the parts of an id made by `join_id`. Raises `ValueError` for a text that it cannot have made."""
    parts = joined.split("/")
    if not all(map(_JOINED_PART.fullmatch, parts)):
        raise ValueError(f"joined: {joined!r} is not made by join_id")
    return tuple(part.replace("%2F", "/").replace("%25", "%") for part in parts)


AgentName = Annotated[str, StringConstraints(min_length=1, max_length=INBOX_PREFIX_BYTES)]
"""The name of an agent, which may be any text that a subject can carry."""


def _check_namespace(value: str) -> str:
    segments = value.split(":")
    if len(segments) < 2:
        raise PydanticCustomError("namespace", "a namespace has at least two segments joined by ':'")
    if segments[0] not in NAMESPACE_ROOTS:
        raise PydanticCustomError("namespace", f"a namespace starts with one of {', '.join(NAMESPACE_ROOTS)}")
    if "" in segments:
        raise PydanticCustomError("namespace", "a namespace has no empty segments")
    return value


Namespace = Annotated[Id, AfterValidator(_check_namespace)]
"""A namespace: at least two non-empty segments joined by ':', the first one of `temp session user app project`."""


def _check_prefix(value: str) -> str:
    segments = value.split(":")
    if segments[0] not in NAMESPACE_ROOTS:
        raise PydanticCustomError("namespace", f"a prefix starts with one of {', '.join(NAMESPACE_ROOTS)}")
    if "" in segments:
        raise PydanticCustomError("namespace", "a prefix is whole segments, without a ':' at its end")
    return value


NamespacePrefix = Annotated[Id, AfterValidator(_check_prefix)]
"""A prefix of whole segments: `user:alice` covers itself and all namespaces that begin with `user:alice:`."""


def _check_suffix(value: str) -> str:
    if "" in value.split(":"):
        raise PydanticCustomError("namespace", "a suffix is whole segments, without a ':' at either end")
    return value


NamespaceSuffix = Annotated[Id, AfterValidator(_check_suffix)]
"""The last segments of a namespace: `travel` is the end of `user:alice:travel`, and `el` is not."""


def ends_with(suffix: str, namespace: str) -> bool:
    """Return whether a namespace equals the suffix, or ends with its segments."""
    return namespace == suffix or namespace.endswith(":" + suffix)


def covers(prefix: str, namespace: str) -> bool:
    """Return whether a namespace equals the prefix, or is below it."""
    return namespace == prefix or namespace.startswith(prefix + ":")


def format_time(moment: datetime) -> str:
    """Format a time as RFC 3339 in UTC, always with six digits, so that times also sort as text."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


@lru_cache(maxsize=64)
def _whole_second(seconds: int) -> str:
    return (_EPOCH + timedelta(seconds=seconds)).replace(tzinfo=None).isoformat(timespec="seconds")


def format_microseconds(microseconds: int) -> str:
    """Format microseconds since 1970 like `format_time`; many times of one second are cheap."""
    seconds, rest = divmod(microseconds, 1_000_000)
    return f"{_whole_second(seconds)}.{rest:06d}Z"


def _in_utc(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise PydanticCustomError("timezone", "a time needs its offset from UTC, such as a trailing 'Z'")
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise PydanticCustomError("time_range", "a time is in the years 1 to 9999 of UTC") from error


Time = Annotated[datetime, AfterValidator(_in_utc), PlainSerializer(format_time, return_type=str, when_used="json")]
"""A moment in UTC with microseconds."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def time_from_microseconds(microseconds: int) -> datetime:
    """Convert microseconds since 1970 exactly, unlike `datetime.fromtimestamp`, which uses a float."""
    return _EPOCH + timedelta(microseconds=microseconds)


def microseconds_from_time(moment: datetime) -> int:
    delta = moment - _EPOCH
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds


_PAIRS: Final = tuple(first + second for first in _ALPHABET for second in _ALPHABET)


def _spelled(number: int) -> str:
    """Encode 130 bits as 26 characters, two at a time."""
    return "".join([_PAIRS[number >> shift & 1023] for shift in range(120, -1, -10)])


def new_id() -> str:
    """Return a fresh ULID: 48 bits of milliseconds and 80 random bits, so ids sort by creation time."""
    return _spelled((time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10)))


def derived_id(*parts: str) -> str:
    """Return an id in the form of a ULID that depends only on the parts, and contains no time."""
    text = "".join(f"{len(part)}:{part}" for part in parts)
    return _spelled(int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()))
