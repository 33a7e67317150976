"""URLs of artifacts: `hive://<tenant>/<session>/<name>?version=N`; without a version they name the newest one."""

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote_to_bytes, urlsplit

from pydantic import TypeAdapter, ValidationError

from hivemem_contracts.artifacts.names import ArtifactName
from hivemem_contracts.errors import InvalidRequest
from hivemem_contracts.identifiers import Id

SCHEME: Final = "hive"
_QUERY: Final = re.compile(r"version=([1-9][0-9]{0,15})")
_NAME: Final = TypeAdapter[str](ArtifactName)
_ID: Final = TypeAdapter[str](Id)


@dataclass(frozen=True, slots=True)
class ArtifactUrl:
    """The parts of a URL; `str` gives the URL."""

    tenant: str
    session_id: str
    name: str
    version: int | None = None

    def __str__(self) -> str:
        version = "" if self.version is None else f"?version={self.version}"
        tenant, session_id = quote(self.tenant, safe=""), quote(self.session_id, safe="")
        return f"{SCHEME}://{tenant}/{session_id}/{quote(self.name, safe='/')}{version}"


def parse_url(url: str) -> ArtifactUrl:
    """Parse the URL of an artifact; raise `InvalidRequest` for anything else."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise _refused(url, str(error)) from error
    session_id, slash, name = parts.path.removeprefix("/").partition("/")
    query = _QUERY.fullmatch(parts.query) if parts.query else None
    if parts.scheme != SCHEME or not parts.netloc or not slash or parts.fragment or (parts.query and query is None):
        raise _refused(url, f"{SCHEME}://<tenant>/<session>/<name>?version=N is wanted")
    version = int(query[1]) if query else None
    try:
        return ArtifactUrl(
            _ID.validate_python(_text(parts.netloc)),
            _ID.validate_python(_text(session_id)),
            _NAME.validate_python(_text(name)),
            version,
        )
    except ValidationError as error:
        raise _refused(url, error.errors(include_url=False)[0]["msg"]) from error
    except UnicodeError as error:
        raise _refused(url, "it is not UTF-8, or its percent escapes are not") from error


def _text(quoted: str) -> str:
    return unquote_to_bytes(quoted).decode("utf-8")


def _refused(url: str, why: str) -> InvalidRequest:
    shown = url if len(url) <= 200 else url[:200] + "…"
    return InvalidRequest(f"url: {shown!r} is not that of an artifact: {why}", field="url")
