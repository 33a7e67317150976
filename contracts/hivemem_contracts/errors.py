"""All expected errors, by code. The code is the contract; the text is for people."""

from collections.abc import Mapping
from typing import Any, cast

CODE_HEADER = "Nats-Service-Error-Code"
TEXT_HEADER = "Nats-Service-Error"


class HiveError(Exception):
    """An expected failure. `code` is unique to its class; `retryable` says that the same call may succeed later."""

    code: int = 0
    retryable: bool = False

    def __init__(self, detail: str, /, **context: Any) -> None:
        super().__init__(detail)
        self.name = type(self).__name__
        self.detail = detail
        self.context: dict[str, Any] = context

    def body(self) -> dict[str, Any]:
        """Return the JSON object of error replies and dead letters."""
        return {
            "error": {
                "code": self.code,
                "name": self.name,
                "detail": self.detail,
                "retryable": self.retryable,
                "context": self.context,
            }
        }


class InvalidRequest(HiveError):
    """Not JSON, a wrong type, an unknown field, a bad id or namespace. The context names the `field`."""

    code = 40001


class Forbidden(HiveError):
    """The agent has no right to do this, or the body names another tenant."""

    code = 40301


class NotFound(HiveError):
    """No such session, memory, artifact, agent, window or version."""

    code = 40401


class AlreadyExists(HiveError):
    """Something with this id exists already."""

    code = 40901


class RevisionConflict(HiveError):
    """`expect_revision` or `expect_version` does not match; the context has `expected` and `actual`."""

    code = 40902


class IllegalTransition(HiveError):
    """The status or machine transition is not allowed; the context has the `allowed` ones."""

    code = 40903


class LeaseHeld(HiveError):
    """Another holder has the lease; the context has the `holder` and `expires_at`."""

    code = 40904


class IdempotencyConflict(HiveError):
    """The idempotency key was used before, by the same agent for the same operation, with another body."""

    code = 40906


class TooLarge(HiveError):
    """A value exceeds its limit; the context has `field`, `limit` and `actual`."""

    code = 41301


class Overloaded(HiveError):
    """The worker's queues are full. Retry after `retry_after_ms`."""

    code = 42901
    retryable = True


class Internal(HiveError):
    """A bug in the worker. Its log has the details, the answer has none."""

    code = 50001


class Unavailable(HiveError):
    """A store is down or the server cannot be reached. Retry after `retry_after_ms`."""

    code = 50301
    retryable = True


ALL_ERRORS: tuple[type[HiveError], ...] = (
    InvalidRequest,
    Forbidden,
    NotFound,
    AlreadyExists,
    RevisionConflict,
    IllegalTransition,
    LeaseHeld,
    IdempotencyConflict,
    TooLarge,
    Overloaded,
    Internal,
    Unavailable,
)
_BY_CODE: Mapping[int, type[HiveError]] = {error.code: error for error in ALL_ERRORS}


def error_from_body(body: Mapping[str, Any]) -> HiveError:
    """Return the error of an error body. An unknown code of a newer fleet becomes a plain `HiveError` that keeps it."""
    fields = _object(body.get("error"))
    code, detail, context = fields.get("code"), fields.get("detail"), fields.get("context")
    if not isinstance(code, int):
        return Internal("the answer is an error without a code")
    error = _BY_CODE.get(code, HiveError)(str(detail))
    if type(error) is HiveError:
        error.code = code
        error.name = str(fields.get("name", error.name))
        error.retryable = fields.get("retryable") is True
    error.context = dict(_object(context))
    return error


def _object(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
