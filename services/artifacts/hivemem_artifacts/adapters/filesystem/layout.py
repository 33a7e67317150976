"""The folders below the root: `blobs/<tenant>/<ab>/<blob>`, `staging/<upload id>/`, and the views for people."""

import os
import secrets
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from hivemem_artifacts.adapters.filesystem.folders import Folder
from hivemem_artifacts.adapters.names import checked_upload_id, tenant_name

_BLOBS: Final = "blobs"
_STAGING: Final = "staging"
_VIEWS: Final = "artifacts"
_TENANTS: Final = "tenants"
_LONE_TENANT: Final = "default"
"""The tenant of a laptop installation. Its sessions have no tenant folder above them."""

_SHARD_DIGITS: Final = 2


class Layout:
    """Opens the folders of one root."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def make(self) -> None:
        with Folder.root(self._root, make=True) as root:
            for name in (_BLOBS, _STAGING):
                root.folder(name, make=True).close()

    @contextmanager
    def staging(self) -> Generator[Folder]:
        with Folder.root(self._root) as root, root.folder(_STAGING) as staging:
            yield staging

    @contextmanager
    def upload(self, upload_id: str, *, make: bool = False) -> Generator[Folder]:
        """Open the staging folder of an upload."""
        with self.staging() as staging, staging.folder(checked_upload_id(upload_id), make=make) as upload:
            yield upload

    @contextmanager
    def tenants(self) -> Generator[Folder]:
        """Open the folder that holds a blob folder for each tenant."""
        with Folder.root(self._root) as root, root.folder(_BLOBS) as blobs:
            yield blobs

    @contextmanager
    def shard(self, tenant: str, blob: str, *, make: bool = False) -> Generator[Folder]:
        """Open the folder of a blob."""
        with self.tenants() as blobs:
            names = (tenant_name(tenant), shard_name(blob))
            with blobs.within(*names, make=make) as shard:
                yield shard

    @contextmanager
    def sessions(self, tenant: str, *, make: bool = False) -> Generator[Folder]:
        """Open the folder that holds a view folder for each session of a tenant."""
        names = (_VIEWS,) if tenant == _LONE_TENANT else (_TENANTS, tenant_name(tenant), _VIEWS)
        with Folder.root(self._root) as root, root.within(*names, make=make) as sessions:
            yield sessions


def shard_name(blob: str) -> str:
    return blob[:_SHARD_DIGITS]


def place(source: Folder, name: str, shard: Folder, blob: str, size: int) -> None:
    """Link a durable file under its blob name. The name is durable when this returns."""
    if not _linked(source, name, shard, blob) and not is_blob(shard, blob, size):
        # The existing file differs from its name because somebody edited it, or it was deleted just now.
        source.link(name, source, draft := fresh_name("put"))
        source.rename(draft, shard, blob)
    shard.sync()


def _linked(source: Folder, name: str, shard: Folder, blob: str) -> bool:
    try:
        source.link(name, shard, blob)
    except FileExistsError:
        return False
    return True


def is_blob(shard: Folder, blob: str, size: int) -> bool:
    """Return whether the blob exists. Its modification time is renewed, so that garbage collection treats it as new."""
    status = shard.status(blob)
    if status is None or not stat.S_ISREG(status.st_mode) or status.st_size != size:
        return False
    try:
        os.utime(blob, dir_fd=shard.descriptor, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def fresh_name(kind: str) -> str:
    """Return an unused name. `kind` tells people which step left the file behind."""
    return f"{kind}-{secrets.token_hex(8)}"
