"""The translation of file system errors into errors of the port."""

import errno
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from hivemem_contracts.errors import Unavailable

RETRY_AFTER_MS: Final = 1_000
FULL_RETRY_AFTER_MS: Final = 10_000
"""The retry delay for a full disk, which rarely has room a second later."""

_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_ODD: Final = (errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.ENXIO)


def unavailable(detail: str) -> Unavailable:
    return Unavailable(detail, retry_after_ms=RETRY_AFTER_MS)


@contextmanager
def translated() -> Generator[None]:
    """Translate errors of the file system into errors of the port, without local paths in the text."""
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
        return unavailable("the artifacts folder contains an entry that is not a plain file or folder")
    return unavailable(f"the artifacts folder cannot be used: {error.strerror}")
