"""What the vectors worker keeps: how far each item is indexed, the mirror of the index, vectors of its users' own."""

from typing import Final

from hivemem_vectors.own.entities import COLLECTION, PROGRESS, VECTOR
from hivemem_vectors.pipeline.entities import FOLLOWED, ITEM, MIRROR
from hivemem_vectors.upkeep.entities import MADE, REMOVAL, SWEEP

ENTITIES: Final = (ITEM, MIRROR, FOLLOWED, REMOVAL, COLLECTION, VECTOR, PROGRESS, SWEEP, MADE)
