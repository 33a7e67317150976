"""The entities of the memory worker: memories, leases, the audit chain, erasures, fences, and answers of batches."""

from typing import Final

from hivemem_memory.entities.answers import ANSWER
from hivemem_memory.entities.audit import CHAIN, FEED_POSITION
from hivemem_memory.entities.erasures import ERASURE
from hivemem_memory.entities.fences import FENCE
from hivemem_memory.entities.leases import LEASE
from hivemem_memory.entities.memories import MEMORY

ENTITIES: Final = (MEMORY, LEASE, CHAIN, FEED_POSITION, ERASURE, FENCE, ANSWER)
