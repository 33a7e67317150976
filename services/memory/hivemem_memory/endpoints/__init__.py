"""The operations of the memory service. A write commits a decision; a read asks an index."""

from hivemem_memory.endpoints import (
    audit_trail,
    erasures,
    export_import,
    forks,
    leases,
    memory_lists,
    namespace_lists,
    namespaces,
    reads,
    writes,
)
from hivemem_memory.endpoints.audit_trail import AuditTrail
from hivemem_memory.endpoints.erasures import Eraser
from hivemem_memory.endpoints.lease_queues import LeaseQueues
from hivemem_runtime.service import Service


def bind(service: Service, *, trail: AuditTrail, eraser: Eraser, queues: LeaseQueues) -> None:
    writes.bind(service, trail)
    reads.bind(service)
    memory_lists.bind(service)
    namespace_lists.bind(service)
    namespaces.bind(service)
    forks.bind(service)
    export_import.bind(service, trail)
    audit_trail.bind(service, trail)
    erasures.bind(service, eraser)
    leases.bind(service, queues)
