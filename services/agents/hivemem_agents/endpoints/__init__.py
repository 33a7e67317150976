"""The operations of the agents service."""

from hivemem_agents.endpoints import agents, cycles, pruning, recall, records, traces
from hivemem_agents.endpoints.record_memories import RecordMemories
from hivemem_runtime.bus.requests.outgoing import Asking
from hivemem_runtime.service import Service


def bind(service: Service, asking: Asking, memories: RecordMemories) -> None:
    agents.bind(service)
    cycles.bind(service)
    records.bind(service, memories)
    recall.bind(service, asking)
    pruning.bind(service, memories)
    traces.bind(service, memories)
