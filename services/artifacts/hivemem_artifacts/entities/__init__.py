"""The entities of the artifacts worker: artifacts, blobs, uploads, workspaces, running deletions and kept values."""

from typing import Final

from hivemem_artifacts.entities.artifacts import ARTIFACT
from hivemem_artifacts.entities.blobs import BLOB
from hivemem_artifacts.entities.deletions import DELETION, WORKSPACE_DELETION
from hivemem_artifacts.entities.kept_values import KEPT_VALUES
from hivemem_artifacts.entities.listings import LISTING
from hivemem_artifacts.entities.uploads import UPLOAD
from hivemem_artifacts.entities.workspaces import WORKSPACE

ENTITIES: Final = (ARTIFACT, BLOB, UPLOAD, DELETION, KEPT_VALUES, WORKSPACE, LISTING, WORKSPACE_DELETION)
