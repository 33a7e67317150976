"""The results of runs with a session: accept, append, advance.

Each part is a commit, or an append under an id of its own. A kill between two parts leaves a due step, and any worker
goes on with it.
"""

from typing import Any

from hivemem_agents.workflows.decisions import steps as rules
from hivemem_agents.workflows.decisions.steps import Claim
from hivemem_agents.workflows.endpoints.plans import Plans
from hivemem_agents.workflows.endpoints.run_sessions import RunSessions
from hivemem_agents.workflows.entities import RUN, STEP, step_place
from hivemem_runtime.clock import now_microseconds
from hivemem_runtime.ledger.port import Decided, Decision, Heads, Ledger, system_write, value_of


class Settling:
    """Finishes steps that are accepted, and acts on those whose time has come."""

    def __init__(self, ledger: Ledger, plans: Plans, sessions: RunSessions) -> None:
        self.ledger = ledger
        self.plans = plans
        self.sessions = sessions

    async def settle(self, tenant: str, run_id: str, number: int, claim: Claim | None = None) -> Any:
        """Append an accepted result to the run's session, and go on with the run. Raises `Unavailable`."""
        step = value_of(await self.ledger.head(STEP, tenant, step_place(run_id, number)))
        if step is None or step.accepted is None:
            return None
        facts, plan = await self.plans.of_run(tenant, run_id)
        view = await self.sessions.append(tenant, facts, plan, step)
        feed = await self.plans.feed(plan)

        def decide(heads: Heads, now: int) -> Decided:
            return rules.settle_step(
                heads, run_id, number, plan, claim, now, state=view.state, failure=view.failure, feed=feed
            )

        reads = ((STEP, step.place),)
        actor = step.claimed_by or facts.created_by
        outcome = await self.ledger.commit(system_write(tenant, RUN, run_id, decide, reads, actor=actor))
        return outcome.answer

    async def settle_all(self, tenant: str, run_id: str) -> None:
        """Settle the accepted steps of a run."""
        run = value_of(await self.ledger.head(RUN, tenant, run_id))
        if run is None or run.session_id is None:
            return
        found = await self.ledger.heads(STEP, tenant, [step_place(run_id, number) for number in run.active])
        for head in found.values():
            if head.value is not None and head.value.accepted is not None:
                await self.settle(tenant, run_id, head.value.number)

    async def act(self, tenant: str, place: str) -> None:
        """Act on a step that is due."""
        step = value_of(await self.ledger.head(STEP, tenant, place))
        if step is None or step.due_at is None or step.due_at > now_microseconds():
            return
        if step.accepted is None:
            facts, plan = await self.plans.of_run(tenant, step.run_id)
            view = await self.sessions.view(tenant, facts)
            feed = await self.plans.feed(plan)

            def decide(heads: Heads, now: int) -> Decision:
                return rules.act_on_time(
                    heads, step.run_id, step.number, plan, now, state=view.state, failure=view.failure, feed=feed
                )

            reads = ((STEP, place),)
            await self.ledger.commit(system_write(tenant, RUN, step.run_id, decide, reads, actor=facts.created_by))
        await self.settle_all(tenant, step.run_id)
