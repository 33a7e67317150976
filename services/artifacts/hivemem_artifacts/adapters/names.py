"""Names of files and objects for arbitrary text.

Harmless text stays readable. Characters that could lead to another folder, are invisible or look like another character
are percent-escaped as UTF-8. Different texts always get different names.
"""

import hashlib
import re
import unicodedata
from typing import Final

from hivemem_contracts.errors import InvalidRequest
from hivemem_contracts.identifiers import time_from_microseconds
from hivemem_contracts.subjects import encode_token

NAME_BYTES: Final = 255
"""The maximum length of a file name."""

MANIFEST: Final = "manifest.json"

_HASH_DIGITS: Final = 32
_KEPT_SUFFIX_BYTES: Final = 16
_SPECIAL: Final = frozenset('/\\%~<>:"|?*')
_EDGES: Final = (".", " ")
"""Characters that hide a name or get lost at its start or end."""

_STAMPED: Final = re.compile(r"\d{8}T\d{6}\.\d{6}Z(?:~\d+)?_")
_BLOB: Final = re.compile(r"[0-9a-f]{64}(?:-[1-9][0-9]{0,15})?")
_UPLOAD_ID: Final = re.compile(r"[0-9A-Za-z_-]{1,64}")


def file_name(at: int, name: str, version: int | None = None) -> str:
    """Return the name of a link, such as `20260131T235959.000001Z_report.pdf`, so that the files of a session sort
    by time. With a version it contains `Z~3_`."""
    stamp = f"{time_from_microseconds(at):%Y%m%dT%H%M%S.%fZ}"
    if version is not None:
        stamp += f"~{version}"
    return _within(f"{stamp}_{_escaped(name)}", name)


def is_file_name(name: str) -> bool:
    """Return whether `file_name` may have made a name. Other files belong to people and stay untouched."""
    return _STAMPED.match(name) is not None


def link_tail(link: str) -> str | None:
    """Return the end of a link's name that no other file of the session has, or None if it is not a link's name."""
    stamp = _STAMPED.match(link)
    if stamp is None:
        return None
    _, tilde, digest = link[stamp.end() :].rpartition("~")
    return tilde + digest


def link_tails(name: str) -> tuple[str, str]:
    """Return both tails that the links of a file may have: links of some versions may be shortened, others not."""
    escaped = _escaped(name)
    return escaped, _shortening(escaped, name)


def folder_name(id: str, suffix: str = "") -> str:
    """Return a name for an id, with a common suffix."""
    escaped = _escaped(id) or "%"
    if escaped.startswith(_EDGES):
        escaped = _percent(escaped[0]) + escaped[1:]
    return _within(escaped, id, NAME_BYTES - len(suffix)) + suffix


def tenant_name(tenant: str) -> str:
    """Return the tenant's token, which can be decoded again. Raises `InvalidRequest` if it is too long."""
    token = encode_token(tenant)
    if len(token) > NAME_BYTES:
        raise InvalidRequest(f"tenant: {len(token)} characters when escaped, {NAME_BYTES} at most", field="tenant")
    return token


def checked_blob(blob: str) -> str:
    if not is_blob_name(blob):
        raise InvalidRequest("blob: not a lower-case SHA-256 with an optional life number", field="blob")
    return blob


def is_blob_name(name: str) -> bool:
    return _BLOB.fullmatch(name) is not None


def checked_upload_id(upload_id: str) -> str:
    if not is_upload_id(upload_id):
        raise InvalidRequest("upload_id: not an id from `begin`", field="upload_id")
    return upload_id


def is_upload_id(name: str) -> bool:
    return _UPLOAD_ID.fullmatch(name) is not None


def _escaped(text: str) -> str:
    # Text that changes under Unicode compatibility normalization contains look-alikes, for example of a slash.
    plain = unicodedata.normalize("NFKC", text) == text
    escaped = "".join([char if _harmless(char, plain) else _percent(char) for char in text])
    return escaped[:-1] + _percent(escaped[-1]) if escaped.endswith(_EDGES) else escaped


def _harmless(char: str, plain: bool) -> bool:
    return char not in _SPECIAL and char.isprintable() and (char.isascii() or plain)


def _percent(char: str) -> str:
    return "".join([f"%{byte:02X}" for byte in char.encode("utf-8", "surrogatepass")])


def _within(escaped: str, text: str, limit: int = NAME_BYTES) -> str:
    """Return the name, shortened to the limit by a hash of the whole text if necessary. A `~` occurs nowhere else."""
    if len(escaped.encode()) <= limit:
        return escaped
    tail = _shortening(escaped, text)
    room = limit - len(tail.encode())
    return escaped.encode()[:room].decode(errors="ignore") + tail


def _shortening(escaped: str, text: str) -> str:
    """Return the end of a shortened name: a hash of the whole text, and its suffix if that is short."""
    _, dot, suffix = escaped.rpartition(".")
    suffix = dot + suffix if len(suffix.encode()) < _KEPT_SUFFIX_BYTES and suffix.isalnum() else ""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_DIGITS]
    return f"~{digest}{suffix}"
