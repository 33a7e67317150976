"""The content type of a file. Its first bytes take precedence over the declared type, and that over the name."""

import mimetypes
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

from puremagic.main import magic_header_array

SNIFFED_BYTES: Final = 4_096
UNKNOWN: Final = "application/octet-stream"
PLAIN: Final = "text/plain; charset=utf-8"
_ENOUGH: Final = 6
"""The minimum length of a rare signature; shorter ones may match by chance."""

_BEGINNING: Final = 4

_SIGNATURES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"\x1f\x8b\x08", "application/gzip"),
    (b"PK\x03\x04", "application/zip"),
    (b"PK\x05\x06", "application/zip"),
    (b"\x28\xb5\x2f\xfd", "application/zstd"),
    (b"\xfd7zXZ\x00", "application/x-xz"),
    (b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (b"SQLite format 3\x00", "application/vnd.sqlite3"),
    (b"\x7fELF", "application/x-elf"),
    (b"{\\rtf", "application/rtf"),
    (b"OggS", "application/ogg"),
    (b"fLaC", "audio/flac"),
    (b"ID3", "audio/mpeg"),
    (b"PAR1", "application/vnd.apache.parquet"),
)
"""The signatures of common types, which need no search."""

_CONTAINERS: Final = {
    "application/zip": re.compile(r"application/(?:.*\+zip|vnd\.openxml.*|vnd\.oasis.*|java-archive|x-.*)"),
    "application/ogg": re.compile(r"(?:audio|video)/.*"),
    "application/gzip": re.compile(r"application/(?:x-.*|.*\+gzip)"),
}
"""Types inside a container, where the name or the declared type may be more precise than the first bytes."""

_TEXTUAL: Final = re.compile(
    r"text/.*|application/(?:json|xml|javascript|x-.*|.*\+json|.*\+xml|toml|yaml|sql)|image/svg.*"
)
_MARKUP: Final = (
    (
        re.compile(rb"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*(?:<!DOCTYPE svg[^>]*>\s*)?<svg[\s>]", re.S),
        "image/svg+xml",
    ),
    (re.compile(rb"\s*(?:<!--.*?-->\s*)*(?:<!doctype html|<html[\s>])", re.S | re.I), "text/html; charset=utf-8"),
    (re.compile(rb"\s*<\?xml\s"), "application/xml"),
)
_CONTROL: Final = bytes(set(range(32)) - {7, 8, 9, 10, 12, 13, 27})


def content_type_of(start: bytes, name: str, said: str | None) -> str:
    """Return the content type, from the first `SNIFFED_BYTES` of a file, its name and the declared type."""
    suggested = mimetypes.guess_type(name, strict=False)[0]
    found = _signature(start)
    if found is not None:
        inside = _CONTAINERS.get(found)
        better = [kind for kind in (said, suggested) if kind and inside is not None and inside.fullmatch(kind)]
        return better[0] if better else found
    if not start or is_text(start):
        return _text(start, said, suggested)
    return _magic(start) or _unless_text(said) or _unless_text(suggested) or UNKNOWN


def is_text(start: bytes) -> bool:
    """Return whether the bytes are UTF-8 without control characters. The last character may be incomplete."""
    try:
        start.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.reason != "unexpected end of data" or error.start < len(start) - 3:
            return False
    return start.translate(None, _CONTROL) == start


def _signature(start: bytes) -> str | None:
    for signature, kind in _SIGNATURES:
        if start.startswith(signature):
            return kind
    if start[:4] == b"RIFF":
        return {b"WAVE": "audio/wav", b"WEBP": "image/webp", b"AVI ": "video/x-msvideo"}.get(start[8:12])
    return None


def _text(start: bytes, said: str | None, suggested: str | None) -> str:
    for pattern, kind in _MARKUP:
        if pattern.match(start):
            return kind
    if not start:
        return said or suggested or UNKNOWN
    for better in filter(None, (said, suggested)):
        if _TEXTUAL.match(better):
            return better if ";" in better or not better.startswith("text/") else f"{better}; charset=utf-8"
    return PLAIN


def _magic(start: bytes) -> str | None:
    """Return the type of the longest rare signature that matches."""
    best, kind = b"", None
    for offset, by_beginning in _rarer().items():
        for signature, named in by_beginning.get(start[offset : offset + _BEGINNING], ()):
            if len(signature) > len(best) and start.startswith(signature, offset):
                best, kind = signature, named
    return kind


@cache
def _rarer() -> Mapping[int, Mapping[bytes, Sequence[tuple[bytes, str]]]]:
    """Return the library's signatures by offset and first bytes. The library itself would try all of them in turn."""
    found: dict[int, dict[bytes, list[tuple[bytes, str]]]] = {}
    signatures: list[Any] = magic_header_array
    for each in signatures:
        if len(each.byte_match) >= _ENOUGH and each.mime_type and each.offset >= 0:
            beginnings = found.setdefault(each.offset, {})
            beginnings.setdefault(each.byte_match[:_BEGINNING], []).append((each.byte_match, each.mime_type))
    return found


def _unless_text(kind: str | None) -> str | None:
    """Return the type unless it is text, because binary data is not text."""
    return None if kind is None or kind.startswith("text/") else kind
