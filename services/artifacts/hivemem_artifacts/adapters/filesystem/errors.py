"""What the file system's errors mean to the port, in one place."""

import errno
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from hivemem_contracts.errors import Unavailable

RETRY_AFTER_MS: Final = 1_000
FULL_RETRY_AFTER_MS: Final = 10_000
"""A full disk seldom has room a second later."""

_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_ODD: Final = (errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.ENXIO)


def unavailable(detail: str) -> Unavailable:
    return Unavailable(detail, retry_after_ms=RETRY_AFTER_MS)


@contextmanager
def translated() -> Generator[None]:
    """Turn what the file system raises inside into the port's errors. Paths of the machine stay out of the text."""
    try:
        yield
    except OSError as error:
        raise _meaning(error) from error


def _meaning(error: OSError) -> Unavailable:
    if error.errno in _FULL:
        return Unavailable(
            f"the disk of the artifacts is full: {error.strerror}", retry_after_ms=FULL_RETRY_AFTER_MS, disk_full=True
        )
    if error.errno in _ODD:
        return unavailable("something that is no plain file or folder stands in the folder of the artifacts")
    return unavailable(f"the folder of the artifacts cannot be used: {error.strerror}")
