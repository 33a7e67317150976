"""The memory worker, wired: the only place that picks its adapters."""

from typing import Final

from hivemem_contracts.memory.operations import MEMORY
from hivemem_memory.endpoints import bind
from hivemem_memory.endpoints.auditing import Trail
from hivemem_memory.endpoints.erasing import Eraser
from hivemem_memory.endpoints.waiting import Waiting
from hivemem_memory.entities import ENTITIES
from hivemem_memory.reactions import reactions
from hivemem_memory.reactions.clock import Clock
from hivemem_runtime.bus.announcer import Announcer
from hivemem_runtime.ledger.opening import open_ledger
from hivemem_runtime.program import WorkerKind
from hivemem_runtime.service import Service
from hivemem_runtime.settings import WorkerSettings
from hivemem_runtime.worker import Parts, Worker


class MemorySettings(WorkerSettings):
    """What every worker reads."""


def build(settings: MemorySettings) -> Worker:
    ledger = open_ledger(settings, ENTITIES, "memory")
    announcer = Announcer(ledger, ENTITIES)
    service = Service(MEMORY, ledger, settings.policy())
    trail = Trail(ledger, announcer)
    eraser = Eraser(ledger, announcer)
    # Who waits for a lease is a request under way, and must leave room for the others.
    waiting = Waiting(ledger, max(settings.requests_under_way // 2, 1))
    clock = Clock(ledger, eraser, settings.request_memory_seconds)
    bind(service, trail=trail, eraser=eraser, waiting=waiting)
    parts = Parts(
        service,
        ledger,
        announcer,
        reactions=reactions(ledger, eraser, trail),
        background=(trail, waiting, eraser, clock),
        leaving=(waiting.leave,),
    )
    return Worker(settings, parts)


WORKER: Final = WorkerKind(MEMORY, MemorySettings, build)
