"""The interface of an incremental hash."""

import hashlib
from typing import Protocol


class Digest(Protocol):
    def update(self, data: bytes, /) -> None: ...
    def hexdigest(self) -> str: ...


def sha256() -> Digest:
    return hashlib.sha256()
