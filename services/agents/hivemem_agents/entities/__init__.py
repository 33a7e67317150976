"""What the agents worker keeps."""

from typing import Final

from hivemem_agents.entities.agents import AGENT, PROGRESS
from hivemem_agents.entities.cycles import CYCLE
from hivemem_agents.entities.records import PRUNING, RECORD
from hivemem_agents.workflows.entities import WORKFLOW_ENTITIES
from hivemem_runtime.ledger.entity import AnyEntity

ENTITIES: Final[tuple[AnyEntity, ...]] = (AGENT, PROGRESS, CYCLE, RECORD, PRUNING, *WORKFLOW_ENTITIES)
