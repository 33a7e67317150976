"""The operations of the memory service. A write commits a decision; a read asks an index."""

from hivemem_memory.endpoints import audit_trail, erasures, export_import, leases, namespaces, reads, writes
from hivemem_memory.endpoints.audit_trail import AuditTrail
from hivemem_memory.endpoints.erasures import Eraser
from hivemem_memory.endpoints.lease_queues import LeaseQueues
from hivemem_runtime.service import Service


def bind(service: Service, *, trail: AuditTrail, eraser: Eraser, waiting: LeaseQueues) -> None:
    writes.bind(service, trail)
    reads.bind(service)
    namespaces.bind(service)
    export_import.bind(service, trail)
    audit_trail.bind(service, trail)
    erasures.bind(service, eraser)
    leases.bind(service, waiting)
