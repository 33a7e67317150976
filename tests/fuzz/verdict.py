"""Judges an answer: it must be success in the operation's own form, or one of its errors, with the field named."""

from collections.abc import Mapping
from typing import Any, Final, cast

import orjson
from pydantic import ValidationError

from hivemem_contracts.errors import CODE_HEADER, InvalidRequest, TooLarge
from hivemem_contracts.frames import STATUS, Delivered, parse_headers

from .cases import Case

ANSWER_BYTES: Final = 1_048_576
"""The maximum size of an answer, although the server passes larger ones."""


def outcome(case: Case, answer: Delivered) -> int:
    """Return the code of the answer, 0 for success. Raises `AssertionError` for an invalid answer."""
    headers = parse_headers(answer.headers)
    assert STATUS not in headers, f"nobody served it: {answer.headers!r}"
    assert len(answer.data) <= ANSWER_BYTES, f"an answer of {len(answer.data)} bytes"
    if case.durable:
        orjson.loads(answer.data)  # the stream's own acknowledgement, or its refusal
        return 0
    if CODE_HEADER in headers:
        return _refusal(case, int(headers[CODE_HEADER]), answer.data)
    if case.operation is not None:
        try:
            case.operation.reply.model_validate_json(answer.data)
        except ValidationError as error:
            raise AssertionError(f"the answer is not of its form: {error}") from error
    return 0


def _refusal(case: Case, code: int, data: bytes) -> int:
    error = cast("Mapping[str, Any]", orjson.loads(data)["error"])
    assert error["code"] == code, "header and body name two codes"
    assert code in case.codes, f"the operation does not answer that: {error}"
    assert error["detail"], "it says why"
    if code in (InvalidRequest.code, TooLarge.code):
        assert isinstance(error["context"].get("field"), str), f"no field is named: {error}"
    if code == TooLarge.code:
        assert {"limit", "actual"} <= error["context"].keys(), f"no limit is named: {error}"
    return code
