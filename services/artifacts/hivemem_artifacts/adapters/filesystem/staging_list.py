"""The list of staged uploads, including files left behind by a kill."""

import os
import stat
from collections.abc import Generator
from contextlib import suppress

from hivemem_artifacts.adapters.filesystem.errors import translated, unavailable
from hivemem_artifacts.adapters.filesystem.folders import Folder, closing, write_all
from hivemem_artifacts.adapters.filesystem.layout import Layout, fresh_name
from hivemem_artifacts.adapters.names import checked_upload_id, is_upload_id
from hivemem_artifacts.ports import StoredStaging


def stored_stagings(layout: Layout) -> Generator[StoredStaging, None, None]:
    with translated(), layout.staging() as staging:
        for name in filter(is_upload_id, staging.names()):
            with suppress(FileNotFoundError):  # removed in the meantime
                yield StoredStaging(name, _modified_at(staging, name))


def discard_staging(layout: Layout, upload_id: str) -> None:
    with translated(), suppress(FileNotFoundError), layout.staging() as staging:
        status = staging.status(checked_upload_id(upload_id))
        if status is not None and stat.S_ISDIR(status.st_mode):
            with staging.folder(upload_id) as upload:
                if not upload.lock():
                    raise unavailable(f"another worker is taking over upload {upload_id}")
                for name in upload.names():
                    upload.remove(name)
        staging.remove(upload_id)


def probe(layout: Layout) -> None:
    """Create the folders, and try every file system feature that the store needs."""
    draft = fresh_name("check")
    with translated():
        layout.make()
        with layout.staging() as staging:
            try:
                with closing(staging.create(draft)) as descriptor:
                    write_all(descriptor, b"check", 0)
                    os.fsync(descriptor)
                staging.link(draft, staging, f"{draft}-link")
            finally:
                staging.remove(draft)
                staging.remove(f"{draft}-link")


def _modified_at(staging: Folder, name: str) -> int:
    status = os.stat(name, dir_fd=staging.descriptor, follow_symlinks=False)
    latest = status.st_mtime_ns
    if stat.S_ISDIR(status.st_mode):
        with staging.folder(name) as upload:
            for entry in upload.entries():
                latest = max(latest, entry.stat(follow_symlinks=False).st_mtime_ns)
    return latest // 1_000
