"""The changes that the artifacts service announces, each with the model of its value."""

from typing import Final

from hivemem_contracts.artifacts.models import Artifact, WorkspaceVersion
from hivemem_contracts.changes import ChangeKind

_ARTIFACT: Final = ("session_id", "name")
_WORKSPACE: Final = ("workspace_id",)

CHANGES: Final[tuple[ChangeKind, ...]] = (
    ChangeKind("artifact", "saved", Artifact, "A version of a file was saved.", _ARTIFACT, keyed=True),
    ChangeKind("artifact", "deleted", None, "A file was removed with all its versions.", _ARTIFACT, keyed=True),
    ChangeKind("workspace", "committed", WorkspaceVersion, "A version of a workspace was committed.", _WORKSPACE),
    ChangeKind("workspace", "deleted", None, "A workspace was removed with all its versions.", _WORKSPACE),
)
