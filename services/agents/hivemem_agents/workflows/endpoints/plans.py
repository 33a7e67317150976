"""The definitions that runs follow, and what never changes of a run: read once, and kept."""

from typing import Final, NamedTuple

from hivemem_agents.workflows.decisions.definitions import Plan
from hivemem_agents.workflows.decisions.progress import FeedPlace
from hivemem_agents.workflows.decisions.runs import run_not_found
from hivemem_agents.workflows.entities import RUN, WORKFLOW, WorkflowVersion
from hivemem_contracts.agents.workflows.definition import WorkflowDefinition
from hivemem_contracts.errors import NotFound
from hivemem_runtime.background import Background
from hivemem_runtime.bounded import BoundedDict
from hivemem_runtime.bus.connection import Client
from hivemem_runtime.bus.feed.reading import FeedReading
from hivemem_runtime.ledger.port import Head, Ledger, value_of

KEPT_PLANS: Final = 200
KEPT_STEPS: Final = 50_000
"""A step takes about a kilobyte, and a definition has 20,000 at most."""
KEPT_RUNS: Final = 20_000


class RunFacts(NamedTuple):
    """What a run begins with, and keeps."""

    name: str
    version: int
    session_id: str | None
    created_by: str


class Plans(Background):
    """Reads definitions, and how far the feed is where a plan waits for changes."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._plans = BoundedDict[tuple[str, str, int], Plan](KEPT_PLANS)
        self._facts = BoundedDict[tuple[str, str], RunFacts](KEPT_RUNS)
        self._known = BoundedDict[tuple[str, str], bool](KEPT_RUNS)
        self._feed: FeedReading | None = None

    async def start(self, client: Client) -> None:
        self._feed = FeedReading(client)

    async def plan(self, tenant: str, name: str, version: int) -> Plan:
        """Return a version of a workflow. Raises `NotFound`."""
        found = self._plans.get((tenant, name, version))
        if found is None:
            record = await self.ledger.record(WORKFLOW, tenant, name, version)
            if record is None:
                await self.newest(tenant, name)
                raise NotFound(f"workflow {name!r} has no version {version}", name=name, version=version)
            found = Plan(WorkflowDefinition.model_validate(record.value.definition))
            self._plans[tenant, name, version] = found
            while len(self._plans) > 1 and sum(len(plan.steps) for plan in self._plans.values()) > KEPT_STEPS:
                self._plans.popitem(last=False)
        return found

    async def newest(self, tenant: str, name: str) -> Head[WorkflowVersion]:
        """Return the head of a workflow. Raises `NotFound`."""
        head = await self.ledger.head(WORKFLOW, tenant, name)
        if head is None:
            raise NotFound(f"workflow {name!r} does not exist: `workflow_put` stores one", name=name)
        return head

    async def require(self, tenant: str, name: str) -> None:
        """Raise `NotFound` unless the workflow exists."""
        if (tenant, name) not in self._known:
            await self.newest(tenant, name)
            self._known[tenant, name] = True

    async def facts(self, tenant: str, run_id: str) -> RunFacts:
        """Return the facts of a run. Raises `NotFound`."""
        found = self._facts.get((tenant, run_id))
        if found is None:
            run = value_of(await self.ledger.head(RUN, tenant, run_id))
            if run is None:
                raise run_not_found(run_id)
            found = RunFacts(run.name, run.version, run.session_id, run.created_by)
            self._facts[tenant, run_id] = found
        return found

    async def of_run(self, tenant: str, run_id: str) -> tuple[RunFacts, Plan]:
        facts = await self.facts(tenant, run_id)
        return facts, await self.plan(tenant, facts.name, facts.version)

    async def feed(self, plan: Plan) -> FeedPlace | None:
        """Return how far the feed is, where the plan needs it. Raises `Unavailable`."""
        if not plan.listens or self._feed is None:
            return None
        state = await self._feed.state()
        return FeedPlace(state.identity, state.last_sequence)
