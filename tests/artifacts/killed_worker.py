"""The artifacts worker as a process that kills itself at a step.

`python -m tests.artifacts.killed_worker STEP COUNT WHEN` dies as by kill -9, before or after call number COUNT of STEP.
The step `none` keeps it alive.
"""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from hivemem_artifacts.adapters.filesystem import FilesystemBlobs
from hivemem_artifacts.adapters.filesystem.staging import FileStaging
from hivemem_artifacts.adapters.filesystem.views import FileView
from hivemem_artifacts.adapters.objects import ObjectBlobs
from hivemem_artifacts.adapters.objects.staging import ObjectStaging
from hivemem_artifacts.adapters.objects.views import ObjectView
from hivemem_artifacts.endpoints.upload_commits import UploadCommits
from hivemem_artifacts.endpoints.uploads import Uploads
from hivemem_artifacts.endpoints.workspace_commits import WorkspaceCommits
from hivemem_artifacts.endpoints.workspace_listings import Listings
from hivemem_artifacts.worker import WORKER
from hivemem_runtime.bus.feed.announcer import Announcer
from hivemem_runtime.program import main as serve

STORES = (FilesystemBlobs, ObjectBlobs)
STEPS: dict[str, tuple[tuple[type[Any], str], ...]] = {
    "begin": ((Uploads, "begin"),),
    "open": tuple((store, "open_staging") for store in STORES),
    "append": ((FileStaging, "append"), (ObjectStaging, "append")),
    "seal": ((FileStaging, "seal"), (ObjectStaging, "seal")),
    "note": ((UploadCommits, "_commit_reference"),),
    "announce": ((Announcer, "_publish"),),
    "discard": tuple((store, "discard") for store in STORES),
    "view": ((FileView, "add"), (ObjectView, "add")),
    "finish": ((FileView, "finish"), (ObjectView, "finish")),
    "listing": ((Listings, "_make_one"),),
    "version": ((WorkspaceCommits, "_commit_drafts"),),
    "put": tuple((store, "put") for store in STORES),
    "none": (),
}


def strike_at(kind: type[Any], method: str, count: int, when: str) -> None:
    done: Callable[..., Any] = getattr(kind, method)
    calls = 0

    async def struck(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        mine = calls == count
        if mine and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = await done(*arguments, **options)
        if mine:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(kind, method, struck)


def main() -> int:
    step, count, when = sys.argv[1:]
    for kind, method in STEPS[step]:
        strike_at(kind, method, int(count), when)
    return serve(WORKER, [])


if __name__ == "__main__":
    sys.exit(main())
