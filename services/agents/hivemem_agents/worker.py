"""The wiring of the agents worker. Only this module chooses adapters."""

from typing import Final

from hivemem_agents.endpoints import bind
from hivemem_agents.endpoints.record_memories import RecordMemories
from hivemem_agents.entities import ENTITIES
from hivemem_agents.reactions import reactions
from hivemem_agents.workflows.endpoints import bind as bind_workflows
from hivemem_agents.workflows.endpoints.claim_queues import ClaimQueues
from hivemem_agents.workflows.endpoints.plans import Plans
from hivemem_agents.workflows.endpoints.run_sessions import RunSessions
from hivemem_agents.workflows.endpoints.settling import Settling
from hivemem_agents.workflows.reactions.change_waits import ChangeWaits
from hivemem_agents.workflows.reactions.run_clock import RunClock
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
    plans = Plans(ledger)
    settling = Settling(ledger, plans, RunSessions(asking))
    # A claim that waits for a step counts as in flight, and must leave room for others.
    queues = ClaimQueues(ledger, max(settings.requests_under_way // 2, 1))
    bind_workflows(service, settling, queues)
    clock, waits = RunClock(ledger, settling), ChangeWaits(ledger, settling)
    parts = Parts(
        service,
        ledger,
        Announcer(ledger, ENTITIES),
        reactions=reactions(ledger),
        background=(asking, plans, queues, clock, waits),
        leaving=(queues.leave,),
    )
    return Worker(settings, parts)


WORKER: Final = WorkerKind(AGENTS, AgentsSettings, build)
