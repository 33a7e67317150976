"""Names of files and objects for text that may hold anything.

Text that is harmless stays as it is, for people to read. What could lead elsewhere, cannot be seen or looks like
something else is percent-escaped by its UTF-8 bytes; different text always gives different names.
"""

import hashlib
import re
import unicodedata
from typing import Final

from hivemem_contracts.errors import InvalidRequest
from hivemem_contracts.identifiers import time_from_microseconds
from hivemem_contracts.subjects import encode_token

NAME_BYTES: Final = 255
"""What file systems take for one name."""

MANIFEST: Final = "manifest.json"

_HASH_DIGITS: Final = 32
_KEPT_SUFFIX_BYTES: Final = 16
_SPECIAL: Final = frozenset('/\\%~<>:"|?*')
_EDGES: Final = (".", " ")
"""At an end of a name they hide it, or are lost."""

_STAMPED: Final = re.compile(r"\d{8}T\d{6}\.\d{6}Z(?:~\d+)?_")
_BLOB: Final = re.compile(r"[0-9a-f]{64}(?:-[1-9][0-9]{0,15})?")
_UPLOAD_ID: Final = re.compile(r"[0-9A-Za-z_-]{1,64}")


def file_name(at: int, name: str, version: int | None = None) -> str:
    """`20260131T235959.000001Z_report.pdf`: files of a session sort by time. With a version, `…Z~3_report.pdf`."""
    stamp = f"{time_from_microseconds(at):%Y%m%dT%H%M%S.%fZ}"
    if version is not None:
        stamp += f"~{version}"
    return _within(f"{stamp}_{_escaped(name)}", name)


def is_file_name(name: str) -> bool:
    """Whether `file_name` may have made it; what people put beside the files is left alone."""
    return _STAMPED.match(name) is not None


def folder_name(id: str, suffix: str = "") -> str:
    """One name for any id, with a suffix that all have."""
    escaped = _escaped(id) or "%"
    if escaped.startswith(_EDGES):
        escaped = _percent(escaped[0]) + escaped[1:]
    return _within(escaped, id, NAME_BYTES - len(suffix)) + suffix


def tenant_name(tenant: str) -> str:
    """The tenant's token, from which the tenant can be told again; too long a one is refused."""
    token = encode_token(tenant)
    if len(token) > NAME_BYTES:
        raise InvalidRequest(
            f"tenant: {len(token)} characters when escaped, and files are kept for up to {NAME_BYTES}", field="tenant"
        )
    return token


def checked_blob(blob: str) -> str:
    if not is_blob_name(blob):
        raise InvalidRequest("blob: not a sha256 in lower case, with or without the number of a life", field="blob")
    return blob


def is_blob_name(name: str) -> bool:
    return _BLOB.fullmatch(name) is not None


def checked_upload_id(upload_id: str) -> str:
    if not is_upload_id(upload_id):
        raise InvalidRequest("upload_id: not one that `begin` gave", field="upload_id")
    return upload_id


def is_upload_id(name: str) -> bool:
    return _UPLOAD_ID.fullmatch(name) is not None


def _escaped(text: str) -> str:
    # Text that is another one to Unicode's compatibility forms holds look-alikes: a slash that is none.
    plain = unicodedata.normalize("NFKC", text) == text
    escaped = "".join([char if _harmless(char, plain) else _percent(char) for char in text])
    return escaped[:-1] + _percent(escaped[-1]) if escaped.endswith(_EDGES) else escaped


def _harmless(char: str, plain: bool) -> bool:
    return char not in _SPECIAL and char.isprintable() and (char.isascii() or plain)


def _percent(char: str) -> str:
    return "".join([f"%{byte:02X}" for byte in char.encode("utf-8", "surrogatepass")])


def _within(escaped: str, text: str, limit: int = NAME_BYTES) -> str:
    """The name itself, or its beginning, a hash of the whole text and its suffix. A `~` stands nowhere else."""
    if len(escaped.encode()) <= limit:
        return escaped
    _, dot, suffix = escaped.rpartition(".")
    suffix = dot + suffix if len(suffix.encode()) < _KEPT_SUFFIX_BYTES and suffix.isalnum() else ""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_DIGITS]
    room = limit - len(f"~{digest}{suffix}".encode())
    return f"{escaped.encode()[:room].decode(errors='ignore')}~{digest}{suffix}"
