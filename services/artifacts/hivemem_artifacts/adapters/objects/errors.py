"""What the object store's errors mean to the port, in one place."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from minio.error import InvalidResponseError, MinioException, S3Error, ServerError
from urllib3.exceptions import HTTPError

from hivemem_contracts.errors import HiveError, Internal, NotFound, Unavailable

RETRY_AFTER_MS: Final = 1_000
FULL_RETRY_AFTER_MS: Final = 10_000
"""A full disk seldom has room a second later."""

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
"""The first and the last one: bytes were changed on their way."""

_SERVER_ERRORS: Final = 500
_INSUFFICIENT_STORAGE: Final = 507
_NO_SPACE: Final = "no space left on device"
"""MinIO calls it an InternalError where the disk was full in the middle of a part, and puts the reason in its text."""


class Changed(Unavailable):
    """An object is no longer the one that was meant."""


def unavailable(detail: str) -> Unavailable:
    return Unavailable(detail, retry_after_ms=RETRY_AFTER_MS)


@contextmanager
def translated() -> Generator[None]:
    """Turn what the client raises inside into the port's errors. Addresses of the store stay out of the text."""
    try:
        yield
    except S3Error as error:
        raise _meaning(error) from error
    except (InvalidResponseError, ServerError, MinioException) as error:
        raise unavailable("the object store gives answers that are none of S3") from error
    except (HTTPError, OSError) as error:
        raise unavailable(f"the object store cannot be reached: {type(error).__name__}") from error


def _meaning(error: S3Error) -> HiveError:
    code, status = error.code or "", error.response.status
    if code in _MISSING:
        return NotFound("the bytes are not stored")
    if code == _CHANGED:
        return Changed("what was staged is no longer what was hashed: resume it", retry_after_ms=RETRY_AFTER_MS)
    if code in _FULL or status == _INSUFFICIENT_STORAGE or _NO_SPACE in (error.message or ""):
        return Unavailable(
            f"the disk of the artifacts is full: {code}", retry_after_ms=FULL_RETRY_AFTER_MS, disk_full=True
        )
    if code in _SET_UP:
        return unavailable(f"the object store cannot be used as it is set up: {code}")
    if status >= _SERVER_ERRORS or code in _PASSING:
        return unavailable(f"the object store cannot do this now: {code}")
    return Internal(f"the object store refused with {code}")
