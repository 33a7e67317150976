"""The operations of the windows service."""

from hivemem_runtime.service import Service
from hivemem_windows.endpoints import appends, deletions, flushes, inspections, reads, resources
from hivemem_windows.endpoints.flusher import Flusher
from hivemem_windows.endpoints.leases import WindowLeases
from hivemem_windows.endpoints.resource_rules import ResourceRules
from hivemem_windows.endpoints.touches import Touches


def bind(
    service: Service,
    rules: ResourceRules,
    *,
    leases: WindowLeases,
    touches: Touches,
    flusher: Flusher,
    breaker_of: inspections.BreakerOf,
) -> None:
    resources.bind(service, rules)
    appends.bind(service, rules, leases)
    reads.bind(service, rules, touches)
    deletions.bind(service, rules, leases)
    flushes.bind(service, rules, leases, flusher)
    inspections.bind(service, rules, breaker_of)
