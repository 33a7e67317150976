"""Workspaces, for a synchronous client."""

from hivemem.sync.blocking import Blocking, blocking
from hivemem.workspaces import Workspaces


class BlockingWorkspaces(Blocking[Workspaces]):
    """Workspaces: folders as a whole, of which every snapshot is a version."""

    snapshot = blocking(Workspaces.snapshot)
    restore = blocking(Workspaces.restore)
    files = blocking(Workspaces.files)
    diff = blocking(Workspaces.diff)
    versions = blocking(Workspaces.versions)
    list = blocking(Workspaces.list)
    delete = blocking(Workspaces.delete)
