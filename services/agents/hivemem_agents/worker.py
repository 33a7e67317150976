"""The wiring of the agents worker. Only this module chooses adapters."""

from typing import Final

from hivemem_agents.endpoints import bind
from hivemem_agents.endpoints.record_memories import RecordMemories
from hivemem_agents.entities import ENTITIES
from hivemem_agents.reactions import reactions
from hivemem_contracts.agents.operations import AGENTS
from hivemem_runtime.bus.feed.announcer import Announcer
from hivemem_runtime.bus.requests.outgoing import Asking
from hivemem_runtime.ledger.opening import open_ledger
from hivemem_runtime.program import WorkerKind
from hivemem_runtime.service import Service
from hivemem_runtime.settings import WorkerSettings
from hivemem_runtime.worker import Parts, Worker


class AgentsSettings(WorkerSettings):
    """The settings that all workers share."""


def build(settings: AgentsSettings) -> Worker:
    ledger = open_ledger(settings, ENTITIES, "agents")
    service = Service(AGENTS, ledger, settings.policy())
    asking = Asking()
    bind(service, asking, RecordMemories(asking))
    parts = Parts(service, ledger, Announcer(ledger, ENTITIES), reactions=reactions(ledger), background=(asking,))
    return Worker(settings, parts)


WORKER: Final = WorkerKind(AGENTS, AgentsSettings, build)
