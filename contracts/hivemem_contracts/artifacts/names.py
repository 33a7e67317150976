"""What a file may be called: nothing that leads out of its folder, whichever system it is written to.

A name is segments joined by `/`. It is refused rather than mended: two names that are different here are different
everywhere, and none of them can mean another place, not even after a system has made one character of two.
"""

import re
import unicodedata
from typing import Annotated, Final

from pydantic import AfterValidator, StringConstraints
from pydantic_core import PydanticCustomError

from hivemem_contracts.limits import ARTIFACT_NAME_BYTES, ARTIFACT_SEGMENT_BYTES

_UNSEEN: Final = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))
"""Categories of characters that nobody sees, or that no two systems agree on."""

_JOINERS: Final = frozenset("\u200c\u200d")
"""Words of some scripts, and most emoji, are made with them."""

_DEVICE: Final = re.compile(r"(?:CON|PRN|AUX|NUL|CONIN\$|CONOUT\$|CLOCK\$|(?:COM|LPT)[0-9¹²³])\s*", re.IGNORECASE)
"""Names that Windows takes for a device, whatever stands behind a dot."""


def _refuse(reason: str) -> PydanticCustomError:
    return PydanticCustomError("artifact_name", "{reason}", {"reason": reason})


def check_name(name: str) -> str:
    """The name itself, if it can be one."""
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
            raise _refuse("no control characters in a name, nor others that nobody sees")
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
    """A system that folds look-alikes, such as a full-width slash or a one-dot leader, may not find another path."""
    folded = unicodedata.normalize("NFKC", name)
    if folded == name:
        return
    if folded.count("/") != name.count("/"):
        raise _refuse("a name holds no look-alike of '/'")
    for segment in folded.split("/"):
        bare = segment.strip()
        if not bare or bare != segment or segment.endswith(".") or "\\" in segment or ":" in segment:
            raise _refuse("a name holds no look-alikes that would make another path of it")
        if _DEVICE.fullmatch(segment.partition(".")[0]):
            raise _refuse(f"{segment!r} is the name of a device on some systems")


ArtifactName = Annotated[
    str, StringConstraints(min_length=1, max_length=ARTIFACT_NAME_BYTES), AfterValidator(check_name)
]
"""Segments joined by `/`: no empty one, no `.` and `..`, no control characters, nothing that a system reads as another
path; at most 200 bytes a segment and 512 in all, in UTF-8."""
