"""The translation of errors of the object store into errors of the port."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from minio.error import InvalidResponseError, MinioException, S3Error, ServerError
from urllib3.exceptions import HTTPError

from hivemem_contracts.errors import HiveError, Internal, NotFound, Unavailable

RETRY_AFTER_MS: Final = 1_000
FULL_RETRY_AFTER_MS: Final = 10_000
"""The retry delay for a full disk, which rarely has room a second later."""

_MISSING: Final = ("NoSuchKey", "ResourceNotFound")
_CHANGED: Final = "PreconditionFailed"
_FULL: Final = (
    "InsufficientStorage",
    "QuotaExceeded",
    "StorageFull",
    "XMinioAdminBucketQuotaExceeded",
    "XMinioStorageFull",
)
_SET_UP: Final = ("AccessDenied", "InvalidAccessKeyId", "NoSuchBucket", "SignatureDoesNotMatch")
_PASSING: Final = ("BadDigest", "RequestTimeout", "SlowDown", "XAmzContentChecksumMismatch")
"""Errors that a retry may fix. The first and the last mean that bytes changed in transit."""

_SERVER_ERRORS: Final = 500
_INSUFFICIENT_STORAGE: Final = 507
_NO_SPACE: Final = "no space left on device"
"""MinIO reports an InternalError if the disk fills up within a part; only its text has the reason."""


class ObjectChanged(Unavailable):
    """The object's bytes do not match the etag any more."""


def unavailable(detail: str) -> Unavailable:
    return Unavailable(detail, retry_after_ms=RETRY_AFTER_MS)


@contextmanager
def translated() -> Generator[None]:
    """Translate errors of the client library into errors of the port, without the store's address in the text."""
    try:
        yield
    except S3Error as error:
        raise _meaning(error) from error
    except (InvalidResponseError, ServerError, MinioException) as error:
        raise unavailable("the object store answered outside the S3 protocol") from error
    except (HTTPError, OSError) as error:
        raise unavailable(f"the object store cannot be reached: {type(error).__name__}") from error


def _meaning(error: S3Error) -> HiveError:
    code, status = error.code or "", error.response.status
    if code in _MISSING:
        return NotFound("the bytes are not stored")
    if code == _CHANGED:
        return ObjectChanged(
            "the staged bytes have changed since they were hashed: resume the upload", retry_after_ms=RETRY_AFTER_MS
        )
    if code in _FULL or status == _INSUFFICIENT_STORAGE or _NO_SPACE in (error.message or ""):
        return Unavailable(
            f"the disk of the artifacts is full: {code}", retry_after_ms=FULL_RETRY_AFTER_MS, disk_full=True
        )
    if code in _SET_UP:
        return unavailable(f"the object store refuses the configured access: {code}")
    if status >= _SERVER_ERRORS or code in _PASSING:
        return unavailable(f"the object store failed temporarily: {code}")
    return Internal(f"the object store refused with {code}")
