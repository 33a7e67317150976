"""The operations of workflows."""

from hivemem_agents.workflows.endpoints import definitions, runs, steps
from hivemem_agents.workflows.endpoints.claim_queues import ClaimQueues
from hivemem_agents.workflows.endpoints.settling import Settling
from hivemem_runtime.service import Service


def bind(service: Service, settling: Settling, queues: ClaimQueues) -> None:
    definitions.bind(service, settling.plans)
    runs.bind(service, settling)
    steps.bind(service, settling, queues)
