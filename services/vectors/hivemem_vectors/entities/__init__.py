"""What the vectors worker keeps: how far each item is indexed, the mirror of the index, vectors of its users' own."""

from typing import Final

from hivemem_vectors.entities.items import ITEM
from hivemem_vectors.entities.mirrors import MIRROR
from hivemem_vectors.entities.removals import REMOVAL
from hivemem_vectors.entities.sessions import FOLLOWED
from hivemem_vectors.entities.stores import MADE
from hivemem_vectors.entities.sweeps import SWEEP
from hivemem_vectors.entities.vectors import COLLECTION, PROGRESS, VECTOR

ENTITIES: Final = (ITEM, MIRROR, FOLLOWED, REMOVAL, COLLECTION, VECTOR, PROGRESS, SWEEP, MADE)
