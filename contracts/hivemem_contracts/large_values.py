"""Large values: JSON over the limit of a field, kept as a file of its session, with a reference in its place."""

from typing import Annotated, Any, Final, cast

from pydantic import Field, ValidationError

from hivemem_contracts.artifacts.models import Sha256
from hivemem_contracts.artifacts.urls import ArtifactUrl
from hivemem_contracts.error_values import shown
from hivemem_contracts.errors import InvalidRequest
from hivemem_contracts.limits import LARGE_VALUE_BYTES
from hivemem_contracts.model import RequestBody, invalid_request

LARGE: Final = "$large"
"""The only field of a reference."""

FOLDER: Final = ".values/"
"""The beginning of the names of files with large values."""


class LargeValue(RequestBody):
    """The file that has a value."""

    sha256: Sha256
    size: Annotated[int, Field(ge=1, le=LARGE_VALUE_BYTES)]
    url: str


class LargeReference(RequestBody):
    """The form of a reference on the wire."""

    large: LargeValue = Field(alias=LARGE)


def value_name(sha256: str) -> str:
    """Return the name of the file with a value. All versions of such a file have the same bytes."""
    return f"{FOLDER}{sha256}.json"


def value_url(tenant: str, session_id: str, sha256: str) -> str:
    return str(ArtifactUrl(tenant, session_id, value_name(sha256)))


def reference_to(tenant: str, session_id: str, sha256: str, size: int) -> dict[str, Any]:
    """Return the reference to a value that is a file of a session."""
    return {LARGE: {"sha256": sha256, "size": size, "url": value_url(tenant, session_id, sha256)}}


def is_reference(value: object) -> bool:
    """Return whether a value is an object whose only field is `$large`."""
    return isinstance(value, dict) and len(cast("dict[str, Any]", value)) == 1 and LARGE in value


def reference_in(value: object) -> LargeValue | None:
    """Return the file of a well-formed reference, or None for any other value."""
    try:
        return LargeReference.model_validate(value, strict=True).large if is_reference(value) else None
    except ValidationError:
        return None


def require_own(tenant: str, session_id: str, value: object, field: str) -> None:
    """Raise `InvalidRequest` for a malformed reference, and for one to another file than that of a value of this
    session. `field` is the path of the value; the error has the path of its wrong part."""
    if not is_reference(value):
        return
    try:
        found = LargeReference.model_validate(value, strict=True).large
    except ValidationError as error:
        refused = invalid_request(error)
        path, problem = f"{field}.{refused.context['field']}", refused.context["problem"]
        raise InvalidRequest(f"{field}.{refused.detail}", field=path, problem=problem) from error
    wanted = value_url(tenant, session_id, found.sha256)
    if found.url != wanted:
        path = f"{field}.{LARGE}.url"
        raise InvalidRequest(f"{path}: it has to be {wanted}, got {shown(found.url)}", field=path)
