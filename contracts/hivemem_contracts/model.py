"""The two kinds of body: requests are validated strictly, replies may gain fields."""

from itertools import islice
from typing import Any, ClassVar, TypeVar, cast

import pydantic
from pydantic import BaseModel, ConfigDict
from pydantic_core import ErrorDetails, from_json

from hivemem_contracts.error_values import field_path, shown
from hivemem_contracts.errors import InvalidRequest
from hivemem_contracts.field_names import names_at
from hivemem_contracts.json_limits import refuse_unportable
from hivemem_contracts.limits import MESSAGE_BYTES
from hivemem_contracts.nearest_name import suggestion
from hivemem_contracts.patterns import IN_WORDS
from hivemem_contracts.sizes import check_size, check_sizes


class RequestBody(BaseModel):
    """A body that an agent sends. An unknown field is refused by name."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, serialize_by_alias=True)

    default_is_absent: ClassVar[bool] = True
    """Whether a field set to its default means the same as a field left out."""


class ReplyBody(BaseModel):
    """A body that a worker sends. A reader ignores fields of a newer fleet."""

    model_config = ConfigDict(extra="ignore", frozen=True, serialize_by_alias=True)


Request = TypeVar("Request", bound=BaseModel)


def decode_body(model: type[Request], data: bytes) -> Request:
    """Return the validated body of a request or a durable command; an empty one means `{}`.

    `InvalidRequest` names the first wrong field and its value, `TooLarge` the field, the limit and the actual size.
    """
    check_size("body", len(data), MESSAGE_BYTES)
    if not data:
        data = b"{}"
    try:
        body = model.model_validate_json(data, strict=True, by_alias=True, by_name=False)
    except pydantic.ValidationError as error:
        raise invalid_request(error, data, model) from error
    refuse_unportable(data)
    check_sizes(body, len(data))
    return body


_PLAINER: dict[str, str] = {
    "string_unicode": "half of a surrogate pair is not text",
    "extra_forbidden": "no such field",
    "missing": "this field is required",
}
_WITHOUT_A_VALUE = ("missing", "json_invalid", "not_json")
_COMPARED_FIELDS = 8
"""The number of unknown fields that are compared with the known ones, since each comparison takes time."""


def invalid_request(
    error: pydantic.ValidationError, data: bytes | None = None, model: type[BaseModel] | None = None
) -> InvalidRequest:
    """Return the first error. With the body's bytes, the field is named exactly as it was sent; with its model, an
    unknown field has a suggestion."""
    errors = error.errors(include_url=False)
    first, meant = _misspelt(errors, model) or (errors[0], "")
    problem = first["type"]
    place = first["loc"]
    if data is not None and problem != "json_invalid":
        place = _sent_place(place, from_json(data), problem)
    field = field_path(place)
    detail = f"{field}: {_plainly(first)}{meant}"
    if problem not in _WITHOUT_A_VALUE:
        detail += f", got {shown(first['input'])}"
    return InvalidRequest(detail, field=field, problem=problem)


def _plainly(error: ErrorDetails) -> str:
    if error["type"] == "string_pattern_mismatch":
        pattern = error.get("ctx", {}).get("pattern", "")
        return IN_WORDS.get(pattern, f"this does not match {pattern}")
    return _PLAINER.get(error["type"], error["msg"])


def _misspelt(errors: list[ErrorDetails], model: type[BaseModel] | None) -> tuple[ErrorDetails, str] | None:
    """Return the first unknown field that is nearly a known one, unless something else comes first.

    Its right name is often missing, but the misspelt one explains why.
    """
    if model is None or errors[0]["type"] not in ("extra_forbidden", "missing"):
        return None
    unknown = (found for found in errors if found["type"] == "extra_forbidden")
    for found in islice(unknown, _COMPARED_FIELDS):
        *outer, name = found["loc"]
        if meant := suggestion(str(name), names_at(model, outer)):
            return found, meant
    return None


def _sent_place(place: tuple[str | int, ...], body: Any, problem: str) -> tuple[str | int, ...]:
    """Return the place without pydantic's own parts, such as the branch of a union; a missing field is last."""
    parts: list[str | int] = []
    sent: object = body
    for part in place:
        if isinstance(sent, dict) and part in sent:
            sent = cast("dict[str | int, object]", sent)[part]
        elif isinstance(sent, list) and isinstance(part, int):
            sent = cast("list[object]", sent)[part]
        elif problem != "missing" or part != place[-1]:
            continue
        parts.append(part)
    return tuple(parts)
