"""What the driver's errors mean to the ledger, in one place."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from bson.errors import InvalidDocument
from pymongo.errors import (
    ConfigurationError,
    ConnectionFailure,
    DocumentTooLarge,
    ExecutionTimeout,
    InvalidURI,
    OperationFailure,
    PyMongoError,
    WaitQueueTimeoutError,
    WTimeoutError,
)

from hivemem_contracts.errors import Internal, InvalidRequest, TooLarge, Unavailable

RETRY_AFTER_MS: Final = 1_000
DOCUMENT_BYTES: Final = 16 * 1024 * 1024

_DUPLICATE_KEY: Final = 11000
_WRITE_CONFLICT: Final = 112
_TOO_LARGE: Final = (10334, 17419, 17420)
_OUT_OF_DISK_SPACE: Final = 14031
_REFUSED: Final = (13, 18, 8000)
_INTERRUPTED: Final = (11600, 11601, 11602)
_PASSING: Final = (6, 7, 24, 50, 64, 89, 91, 100, 189, 262, 290, 317, 358, 9001, 10107, *_INTERRUPTED, 13435, 13436)
"""The server's codes for timeouts, interruption, shutdown, elections and missing members."""

_TRANSIENT: Final = "TransientTransactionError"
_UNKNOWN: Final = "UnknownTransactionCommitResult"


class Conflict(Exception):
    """Somebody else was faster, or a cached head was old: read again, decide again."""


class CommitUnknown(Unavailable):
    """The server may or may not have committed the transaction."""


def unavailable(detail: str) -> Unavailable:
    return Unavailable(detail, retry_after_ms=RETRY_AFTER_MS)


@contextmanager
def translated() -> Generator[None, None, None]:
    """Turn whatever the driver raises inside into the ledger's errors."""
    try:
        yield
    except PyMongoError as error:
        raise _meaning(error) from error
    except DocumentTooLarge as error:
        raise _too_large(str(error)) from error
    except (InvalidDocument, OverflowError, UnicodeEncodeError) as error:
        raise InvalidRequest(f"this cannot be stored: {error}") from error


@contextmanager
def committing() -> Generator[None, None, None]:
    """Around `commitTransaction`: a lost connection or a timeout leaves open what became of the transaction."""
    try:
        with translated():
            yield
    except (Unavailable, Conflict) as error:
        cause = error.__cause__
        if isinstance(cause, PyMongoError) and (
            cause.has_error_label(_UNKNOWN) or not cause.has_error_label(_TRANSIENT)
        ):
            raise CommitUnknown(str(cause), retry_after_ms=RETRY_AFTER_MS) from cause
        raise


def raise_for_errors(reply: Mapping[str, Any]) -> None:
    """A bulk write answers its errors one by one in a cursor, inside a reply that is otherwise fine."""
    if reply["nErrors"]:
        first = reply["cursor"]["firstBatch"][0]
        raise _meaning_of_code(first["code"], first.get("errmsg", "a write was refused"))


def _meaning(error: PyMongoError) -> Exception:
    if isinstance(error, (ConnectionFailure, WaitQueueTimeoutError, ExecutionTimeout, WTimeoutError)):
        return unavailable(f"MongoDB: {error}")
    if isinstance(error, (ConfigurationError, InvalidURI)):
        return unavailable(f"MongoDB cannot be used as it is set up: {error}")
    if isinstance(error, OperationFailure):
        if error.has_error_label(_TRANSIENT):
            return Conflict(str(error))
        return _meaning_of_code(error.code or 0, str(error))
    return Internal(f"MongoDB: {error}")


def _meaning_of_code(code: int, detail: str) -> Exception:
    if code in (_DUPLICATE_KEY, _WRITE_CONFLICT):
        return Conflict(detail)
    if code in _TOO_LARGE:
        return _too_large(detail)
    if code == _OUT_OF_DISK_SPACE or code in _REFUSED or code in _PASSING:
        return unavailable(f"MongoDB: {detail}")
    return Internal(f"MongoDB refused with code {code}: {detail}")


def _too_large(detail: str) -> TooLarge:
    return TooLarge(f"more than one document of MongoDB holds: {detail}", field="body", limit=DOCUMENT_BYTES)
