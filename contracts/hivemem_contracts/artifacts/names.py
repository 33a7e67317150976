"""Valid names of files: no name leads out of its folder, on any operating system.

A name is segments joined by `/`. An invalid name is refused, not repaired: two names that differ here differ
everywhere, and none can mean another path, not even on a system that normalises characters.
"""

import re
import unicodedata
from typing import Annotated, Final

from pydantic import AfterValidator, StringConstraints
from pydantic_core import PydanticCustomError

from hivemem_contracts.limits import ARTIFACT_NAME_BYTES, ARTIFACT_SEGMENT_BYTES
from hivemem_contracts.named_types import NamedType
from hivemem_contracts.patterns import CONTROL, SPACE_OR_CONTROL

_UNSEEN: Final = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))
"""Unicode categories of invisible characters, and of characters that systems treat differently."""

_JOINERS: Final = frozenset("\u200c\u200d")
"""Joiners, which words of some scripts and most emoji need."""

_DEVICE: Final = re.compile(r"(?:CON|PRN|AUX|NUL|CONIN\$|CONOUT\$|CLOCK\$|(?:COM|LPT)[0-9¹²³])\s*", re.IGNORECASE)
"""Names of devices on Windows, with any extension."""


def _refuse(reason: str) -> PydanticCustomError:
    return PydanticCustomError("artifact_name", "{reason}", {"reason": reason})


def check_name(name: str) -> str:
    """Return the name if it is valid, else raise."""
    plain = name.isascii()
    if not plain:
        _check_characters(name)
    elif not name.isprintable():
        raise _refuse("no control characters in a name")
    size = len(name) if plain else len(name.encode())
    if size > ARTIFACT_NAME_BYTES:
        raise _refuse(f"a name has at most {ARTIFACT_NAME_BYTES} bytes, this one {size}")
    _check_segments(name)
    if not plain:
        _check_compatible(name)
    return name


def _check_characters(name: str) -> None:
    for character in name:
        if character not in _JOINERS and unicodedata.category(character) in _UNSEEN:
            raise _refuse("no control characters and no invisible characters in a name")
    if not unicodedata.is_normalized("NFC", name):
        raise _refuse("a name is in Unicode's normal form C")


def _check_segments(name: str) -> None:
    if "\\" in name or ":" in name:
        raise _refuse("no backslash and no colon in a name: '/' separates its segments")
    for segment in name.split("/"):
        if not segment:
            raise _refuse("a name is segments joined by '/', none of them empty")
        if segment in (".", ".."):
            raise _refuse("no '.' and no '..' as a segment of a name")
        if segment != segment.strip() or segment.endswith("."):
            raise _refuse("no segment of a name begins or ends with a space, or ends with a dot")
        if _DEVICE.fullmatch(segment.partition(".")[0]):
            raise _refuse(f"{segment!r} is the name of a device on some systems")
        if len(segment.encode()) > ARTIFACT_SEGMENT_BYTES:
            raise _refuse(f"a segment of a name has at most {ARTIFACT_SEGMENT_BYTES} bytes")


def _check_compatible(name: str) -> None:
    """Refuse look-alikes, such as a full-width slash or a one-dot leader, that would make another path when folded."""
    folded = unicodedata.normalize("NFKC", name)
    if folded == name:
        return
    if folded.count("/") != name.count("/"):
        raise _refuse("a name holds no look-alike of '/'")
    for segment in folded.split("/"):
        bare = segment.strip()
        if not bare or bare != segment or segment.endswith(".") or "\\" in segment or ":" in segment:
            raise _refuse("a name holds no look-alikes that would make it another path")
        if _DEVICE.fullmatch(segment.partition(".")[0]):
            raise _refuse(f"{segment!r} is the name of a device on some systems")


_LAST: Final = rf"[^{SPACE_OR_CONTROL}/\\:.]"
_SEGMENT: Final = rf"(?:{_LAST}|[^{SPACE_OR_CONTROL}/\\:][^{CONTROL}/\\:]*{_LAST})"

ArtifactName = Annotated[
    str,
    StringConstraints(min_length=1, max_length=ARTIFACT_NAME_BYTES),
    AfterValidator(check_name),
    NamedType(
        "ArtifactName",
        "The name of a file: segments joined by `/`, in Unicode's normal form C, without invisible characters, without "
        "names of devices such as `NUL` and without look-alikes that would make it another path on some system; at "
        f"most {ARTIFACT_SEGMENT_BYTES} bytes a segment and {ARTIFACT_NAME_BYTES} in all, in UTF-8.",
        {"pattern": f"^{_SEGMENT}(?:/{_SEGMENT})*$"},
    ),
]
