"""What a runner logs of the values of a program: JSON as it is, and a description of anything else."""

from collections.abc import Callable
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import to_json

from hivemem_contracts.errors import HiveError, InvalidRequest
from hivemem_contracts.json_limits import refuse_unportable
from hivemem_contracts.json_values import plain_json

LOGGED_BYTES: Final = 2_097_152
"""A larger input or output is logged by its size. Over 256 KiB the session keeps it as a file."""
_SHOWN_CHARACTERS: Final = 1_000


def logged(value: object) -> Any:
    """Return a value as JSON: converted where the client converts it, and described where it would be refused."""
    try:
        plain = plain_json(value)
        data = to_json(plain)
        refuse_unportable(b'{"body":{"event":{"content":{"value":' + data + b"}}}}")
    except ValidationError as error:
        return _described(value, error.errors()[0]["msg"])
    except InvalidRequest as error:
        return _described(value, error.detail.partition(": ")[2])
    except ValueError as error:
        return _described(value, str(error))
    if len(data) > LOGGED_BYTES:
        return {"omitted_bytes": len(data)}
    return plain


def logged_error(error: BaseException) -> dict[str, Any]:
    code = {"code": error.code} if isinstance(error, HiveError) else {}
    return {"type": type(error).__qualname__, "message": _text(_shown(error, str)), **code}


def _described(value: object, why: str) -> dict[str, str]:
    return {"not_json": _text(_shown(value, repr)), "why": _text(why)}


def _shown(value: object, show: Callable[[object], str]) -> str:
    """Return a value as text, even if its own method for that fails."""
    try:
        return show(value)
    except Exception as error:
        return f"a {type(value).__qualname__} that cannot be shown: {type(error).__qualname__}"


def _text(text: str) -> str:
    """Return the beginning of a text, with nothing that UTF-8 cannot encode."""
    return text[:_SHOWN_CHARACTERS].encode(errors="replace").decode()
