"""The wiring of the memory worker. Only this module chooses adapters."""

from typing import Final

from hivemem_contracts.memory.operations import MEMORY
from hivemem_memory.endpoints import bind
from hivemem_memory.endpoints.audit_trail import AuditTrail
from hivemem_memory.endpoints.erasures import Eraser
from hivemem_memory.endpoints.lease_queues import LeaseQueues
from hivemem_memory.entities import ENTITIES
from hivemem_memory.reactions import reactions
from hivemem_memory.reactions.upkeep import Upkeep
from hivemem_runtime.bus.feed.announcer import Announcer
from hivemem_runtime.ledger.opening import open_ledger
from hivemem_runtime.program import WorkerKind
from hivemem_runtime.service import Service
from hivemem_runtime.settings import WorkerSettings
from hivemem_runtime.worker import Parts, Worker


class MemorySettings(WorkerSettings):
    """The settings that all workers share."""


def build(settings: MemorySettings) -> Worker:
    ledger = open_ledger(settings, ENTITIES, "memory")
    announcer = Announcer(ledger, ENTITIES)
    service = Service(MEMORY, ledger, settings.policy())
    trail = AuditTrail(ledger, announcer)
    eraser = Eraser(ledger, announcer)
    # A request that waits for a lease counts as in flight, and must leave room for others.
    queues = LeaseQueues(ledger, max(settings.requests_under_way // 2, 1))
    upkeep = Upkeep(ledger, eraser, settings.request_memory_seconds)
    bind(service, trail=trail, eraser=eraser, queues=queues)
    parts = Parts(
        service,
        ledger,
        announcer,
        reactions=reactions(ledger, eraser, trail),
        background=(trail, queues, eraser, upkeep),
        leaving=(queues.leave,),
    )
    return Worker(settings, parts)


WORKER: Final = WorkerKind(MEMORY, MemorySettings, build)
