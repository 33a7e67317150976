"""What the memory worker keeps: memories, leases, the audit, erasures, answers of operations with many parts."""

from typing import Final

from hivemem_memory.entities.answers import ANSWER
from hivemem_memory.entities.audit import CHAIN, TAKEN_UP
from hivemem_memory.entities.erasures import ERASURE
from hivemem_memory.entities.fences import FENCE
from hivemem_memory.entities.leases import LEASE
from hivemem_memory.entities.memories import MEMORY

ENTITIES: Final = (MEMORY, LEASE, CHAIN, TAKEN_UP, ERASURE, FENCE, ANSWER)
