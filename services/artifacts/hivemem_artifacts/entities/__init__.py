"""The entities of the artifacts worker: artifacts, blobs, uploads, running deletions and kept values."""

from typing import Final

from hivemem_artifacts.entities.artifacts import ARTIFACT
from hivemem_artifacts.entities.blobs import BLOB
from hivemem_artifacts.entities.deletions import DELETION
from hivemem_artifacts.entities.kept_values import KEPT_VALUES
from hivemem_artifacts.entities.uploads import UPLOAD

ENTITIES: Final = (ARTIFACT, BLOB, UPLOAD, DELETION, KEPT_VALUES)
