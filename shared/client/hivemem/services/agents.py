"""The operations of agents as methods, generated from the contracts by `make docs`."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from hivemem.methods import MISSING, ServiceMethods, reads, writes
from hivemem_contracts.agents import operations
from hivemem_contracts.agents.models import Agent, Cycle, Tool, WorkspaceCue
from hivemem_contracts.agents.replies import (
    AgentPage,
    AgentWritten,
    CyclePage,
    CycleWritten,
    Pruned,
    RecalledRecords,
    RecordPage,
    RecordWritten,
    Resumed,
    TraceImported,
    TracePage,
)
from hivemem_contracts.agents.requests import AgentLine, CycleLine, RecordLine
from hivemem_contracts.agents.workflows.definition import WorkflowDefinition
from hivemem_contracts.agents.workflows.models import Run, WorkflowView
from hivemem_contracts.agents.workflows.replies import (
    OnceRecorded,
    RunPage,
    RunWritten,
    StepRenewed,
    StepReported,
    StepsClaimed,
    WorkflowPage,
    WorkflowWritten,
)
from hivemem_contracts.json_values import Json
from hivemem_contracts.memory.models import LeaseClaim


class AgentsOperations(ServiceMethods):
    """Agents: their cycles of proposal and result, their records, and workflows."""

    @writes(operations.REGISTER)
    async def register(
        self,
        *,
        agent_id: str,
        name: str | None = MISSING,
        directives: Json = MISSING,
        overrides: dict[str, Json] | None = MISSING,
        metadata: dict[str, Json] | None = MISSING,
        expect_version: int | None = MISSING,
    ) -> AgentWritten:
        """Register an agent, or change its definition.

        Fields that are left out stay as they were.

        Args:
            name: Its name for people; an explicit None removes it.
            directives: What it has to do: any JSON.
            overrides: Settings of its runtime that differ from the usual.
            expect_version: Refuse with RevisionConflict unless this is the current version; 0: must not exist.

        Raises:
            RevisionConflict: `expect_revision` or `expect_version` does not match; the context has `expected` and
                `actual`.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.REGISTER, locals())

    @reads(operations.GET)
    async def get(
        self,
        *,
        agent_id: str,
    ) -> Agent:
        """Read an agent.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable.
        """
        return await self._send(operations.GET, locals())

    @reads(operations.LIST)
    async def list(
        self,
        *,
        status: Literal["active", "paused", "retired"] | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> AgentPage:
        """List agents by id.

        Args:
            limit: From 1 to 1000.
            cursor: The cursor of the previous page.

        Raises:
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable.
        """
        return await self._send(operations.LIST, locals())

    @writes(operations.SET_STATUS)
    async def set_status(
        self,
        *,
        agent_id: str,
        status: Literal["active", "paused", "retired"],
    ) -> AgentWritten:
        """Pause an agent, let it go on, or retire it for good.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            IllegalTransition: The status or machine transition is not allowed; the context has the `allowed` ones.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.SET_STATUS, locals())

    @writes(operations.CYCLE_BEGIN)
    async def cycle_begin(
        self,
        *,
        agent_id: str,
        session_id: str | None = None,
        lease: LeaseClaim | None = None,
    ) -> CycleWritten:
        """Begin the next cycle of an active agent; one at a time is open.

        Args:
            lease: The lease under which the agent runs. A claim with an earlier token of this lease is refused from
                then on.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            IllegalTransition: The status or machine transition is not allowed; the context has the `allowed` ones.
            LeaseHeld: Another holder has the lease; the context has the `holder` and `expires_at`.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.CYCLE_BEGIN, locals())

    @writes(operations.PROPOSE)
    async def propose(
        self,
        *,
        agent_id: str,
        number: int,
        thoughts: Json = None,
        reasoning: Json = None,
        plan: Json = None,
        tool: Tool | None = None,
        workspace: WorkspaceCue | None = None,
        lease: LeaseClaim | None = None,
    ) -> CycleWritten:
        """Write the proposal of the open cycle, once.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            IllegalTransition: The status or machine transition is not allowed; the context has the `allowed` ones.
            LeaseHeld: Another holder has the lease; the context has the `holder` and `expires_at`.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.PROPOSE, locals())

    @writes(operations.COMPLETE)
    async def complete(
        self,
        *,
        agent_id: str,
        number: int,
        outcome: Literal["success", "failure", "interrupted"],
        output: Json = None,
        error: Json = None,
        artifacts: Sequence[str] | None = None,
        lease: LeaseClaim | None = None,
    ) -> CycleWritten:
        """End the open cycle with its result, after its proposal.

        Args:
            artifacts: URLs of files that it saved.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            IllegalTransition: The status or machine transition is not allowed; the context has the `allowed` ones.
            LeaseHeld: Another holder has the lease; the context has the `holder` and `expires_at`.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.COMPLETE, locals())

    @writes(operations.ABANDON)
    async def abandon(
        self,
        *,
        agent_id: str,
        number: int,
        reason: str,
        lease: LeaseClaim | None = None,
    ) -> CycleWritten:
        """End the open cycle without a result.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            IllegalTransition: The status or machine transition is not allowed; the context has the `allowed` ones.
            LeaseHeld: Another holder has the lease; the context has the `holder` and `expires_at`.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.ABANDON, locals())

    @reads(operations.RESUME)
    async def resume(
        self,
        *,
        agent_id: str,
    ) -> Resumed:
        """Read where an agent stands, and the step that comes next.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable.
        """
        return await self._send(operations.RESUME, locals())

    @reads(operations.CYCLE)
    async def cycle(
        self,
        *,
        agent_id: str,
        number: int,
    ) -> Cycle:
        """Read a cycle.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable.
        """
        return await self._send(operations.CYCLE, locals())

    @reads(operations.CYCLES)
    async def cycles(
        self,
        *,
        agent_id: str,
        status: Literal["begun", "proposed", "completed", "failed", "abandoned"] | None = None,
        after: int | None = None,
        before: int | None = None,
        reverse: bool = False,
        limit: int = 50,
        cursor: str | None = None,
    ) -> CyclePage:
        """List the cycles of an agent, forwards or backwards.

        Args:
            after: Only later cycles.
            before: Only earlier cycles.
            reverse: Newest first.
            limit: From 1 to 1000.
            cursor: The cursor of the previous page.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable.
        """
        return await self._send(operations.CYCLES, locals())

    @writes(operations.RECORD)
    async def record(
        self,
        *,
        agent_id: str,
        kind: Literal["observation", "reflection", "plan", "result"],
        content: Json,
        number: int | None = None,
        importance: float | None = None,
        metadata: dict[str, Json] | None = None,
        record_id: str | None = None,
    ) -> RecordWritten:
        """Record an observation, a reflection, a plan or a result as a memory of the agent.

        Args:
            number: The cycle that it belongs to.
            importance: From 0 to 1.
            metadata: Without `kind`, which the worker adds.
            record_id: The key of the memory; an existing record gets a version.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.RECORD, locals())

    @reads(operations.RECORDS)
    async def records(
        self,
        *,
        agent_id: str,
        kind: Literal["observation", "reflection", "plan", "result"] | None = None,
        number: int | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> RecordPage:
        """List the records of an agent, by kind, cycle or time.

        Args:
            number: Only records of this cycle.
            until: Before this moment.
            limit: From 1 to 1000.
            cursor: The cursor of the previous page.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable.
        """
        return await self._send(operations.RECORDS, locals())

    @reads(operations.RECALL)
    async def recall(
        self,
        *,
        agent_id: str,
        query: str,
        kinds: Sequence[Literal["observation", "reflection", "plan", "result"]] | None = None,
        limit: int = 10,
        max_tokens: int | None = None,
        wait_ms: int | None = None,
        results: int = 5,
    ) -> RecalledRecords:
        """Find an agent's records by meaning, with the results of its newest cycles.

        Args:
            kinds: Only records of these kinds.
            limit: From 1 to 100.
            max_tokens: Limit the values to about this many tokens; an item over the limit is skipped. From 1 to
                1000000.
            wait_ms: Wait at most this long until all earlier acknowledged records are indexed. From 0 to 30000.
            results: Add the results of this many of the newest cycles. From 0 to 100.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable.
        """
        return await self._send(operations.RECALL, locals())

    @writes(operations.PRUNE)
    async def prune(
        self,
        *,
        agent_id: str,
        kinds: Sequence[Literal["observation", "reflection", "plan", "result"]] | None = None,
        max_entries: int | None = None,
        older_than_days: float | None = None,
        min_relevance: float | None = None,
        half_life_days: float = 30.0,
        dry_run: bool = False,
    ) -> Pruned:
        """Delete an agent's records by age and relevance.

        Deleted memories keep their history.

        Args:
            kinds: Only records of these kinds.
            max_entries: Keep this many, the most relevant ones.
            older_than_days: Delete what was recorded earlier than this.
            min_relevance: Delete what is less relevant: the importance (0.5, if it has none), halved every
                `half_life_days`. From 0 to 1.
            dry_run: Only tell what would be deleted.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.PRUNE, locals())

    @reads(operations.TRACE)
    async def trace(
        self,
        *,
        agent_id: str,
        after: int | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> TracePage:
        """Export everything about an agent, in order.

        Args:
            after: Only what came after this cycle had begun, without the definition.
            limit: From 1 to 1000.
            cursor: The cursor of the previous page.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable.
        """
        return await self._send(operations.TRACE, locals())

    @writes(operations.TRACE_IMPORT)
    async def trace_import(
        self,
        *,
        items: Sequence[AgentLine | CycleLine | RecordLine],
    ) -> TraceImported:
        """Import the lines of a trace; known lines are left alone.

        Args:
            items: Lines in the order of `trace`. Known ones are left alone.

        Raises:
            AlreadyExists: Something with this id exists already.
            NotFound: No such session, memory, artifact, agent, window or version.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.TRACE_IMPORT, locals())

    @writes(operations.WORKFLOW_PUT)
    async def workflow_put(
        self,
        *,
        name: str,
        definition: WorkflowDefinition,
        expect_version: int | None = None,
    ) -> WorkflowWritten:
        """Store a new version of a workflow.

        Runs keep the version that they began with.

        Args:
            expect_version: Refuse with RevisionConflict unless this is the current version; 0: must not exist.

        Raises:
            RevisionConflict: `expect_revision` or `expect_version` does not match; the context has `expected` and
                `actual`.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.WORKFLOW_PUT, locals())

    @reads(operations.WORKFLOW_GET)
    async def workflow_get(
        self,
        *,
        name: str,
        version: int | None = None,
    ) -> WorkflowView:
        """Read a workflow, its newest version or an older one.

        Args:
            version: The newest version, if left out.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable.
        """
        return await self._send(operations.WORKFLOW_GET, locals())

    @reads(operations.WORKFLOWS)
    async def workflows(
        self,
        *,
        limit: int = 50,
        cursor: str | None = None,
    ) -> WorkflowPage:
        """List workflows by name.

        Args:
            limit: From 1 to 1000.
            cursor: The cursor of the previous page.

        Raises:
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable.
        """
        return await self._send(operations.WORKFLOWS, locals())

    @writes(operations.RUN_START)
    async def run_start(
        self,
        *,
        name: str,
        run_id: str | None = None,
        input: Json = None,
        session_id: str | None = None,
        version: int | None = None,
    ) -> RunWritten:
        """Start a run of a workflow.

        Args:
            name: The workflow.
            run_id: A ULID if left out.
            session_id: The session whose state is the run's, and which gets each result as an event.
            version: The newest version of the workflow, if left out.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            AlreadyExists: Something with this id exists already.
            IllegalTransition: The status or machine transition is not allowed; the context has the `allowed` ones.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.RUN_START, locals())

    @reads(operations.RUN_GET)
    async def run_get(
        self,
        *,
        run_id: str,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Run:
        """Read a run with its newest steps.

        A cursor leads to the steps before them.

        Args:
            limit: Number of steps to return. From 1 to 1000.
            cursor: The cursor of the previous page.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable.
        """
        return await self._send(operations.RUN_GET, locals())

    @reads(operations.RUNS)
    async def runs(
        self,
        *,
        name: str | None = None,
        status: Literal["running", "waiting", "completed", "failed", "compensated", "cancelled"] | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> RunPage:
        """List runs by workflow and status, newest first.

        Args:
            name: Only runs of this workflow.
            limit: From 1 to 1000.
            cursor: The cursor of the previous page.

        Raises:
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable.
        """
        return await self._send(operations.RUNS, locals())

    @writes(operations.RUN_CANCEL)
    async def run_cancel(
        self,
        *,
        run_id: str,
    ) -> RunWritten:
        """Cancel a run; its running steps are not waited for.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            IllegalTransition: The status or machine transition is not allowed; the context has the `allowed` ones.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.RUN_CANCEL, locals())

    @writes(operations.RUN_SIGNAL)
    async def run_signal(
        self,
        *,
        run_id: str,
        name: str,
        data: Json = None,
    ) -> RunWritten:
        """Send a signal to a run.

        It is kept until a step waits for it.

        Args:
            name: The signal.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            IllegalTransition: The status or machine transition is not allowed; the context has the `allowed` ones.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.RUN_SIGNAL, locals())

    @writes(operations.RUN_RETRY)
    async def run_retry(
        self,
        *,
        run_id: str,
        step: str | None = None,
    ) -> RunWritten:
        """Go on with a run that failed or was cancelled.

        Args:
            step: The step to go on with. If left out, the step that failed or was cancelled; the first one for a run
                that was compensated.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            IllegalTransition: The status or machine transition is not allowed; the context has the `allowed` ones.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.RUN_RETRY, locals())

    @writes(operations.STEP_CLAIM)
    async def step_claim(
        self,
        *,
        name: str,
        run_id: str | None = None,
        handlers: Sequence[str] | None = None,
        lease: int = 30000,
        wait_ms: int = 0,
        limit: int = 1,
    ) -> StepsClaimed:
        """Claim steps that can run now.

        Args:
            name: The workflow.
            run_id: Only steps of this run.
            handlers: Only tasks of these handlers.
            lease: Milliseconds until others can claim them. From 100 to 3600000.
            wait_ms: Wait at most this long for a step. From 0 to 60000.
            limit: From 1 to 100.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.STEP_CLAIM, locals())

    @writes(operations.STEP_REPORT)
    async def step_report(
        self,
        *,
        run_id: str,
        step: str,
        attempt: int,
        token: int,
        output: Json = None,
        error: Json = None,
        final: bool = False,
        claim_next: bool = False,
        handlers: Sequence[str] | None = None,
        lease: int = 30000,
    ) -> StepReported:
        """Report the result of a claimed step.

        A report without `error` is a success.

        Args:
            attempt: From 1 to 1000000.
            error: Any JSON but None: the attempt failed.
            final: With `error`: no further attempt can help.
            claim_next: Claim the step that comes next in the run at once.
            handlers: With `claim_next`: only a task of these handlers.
            lease: With `claim_next`: milliseconds of the claim. From 100 to 3600000.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            LeaseHeld: Another holder has the lease; the context has the `holder` and `expires_at`.
            IllegalTransition: The status or machine transition is not allowed; the context has the `allowed` ones.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.STEP_REPORT, locals())

    @writes(operations.STEP_RENEW)
    async def step_renew(
        self,
        *,
        run_id: str,
        step: str,
        attempt: int,
        token: int,
        lease: int = 30000,
    ) -> StepRenewed:
        """Prolong the claim of a step.

        Refused once the step is not the caller's any more, or the run is cancelled.

        Args:
            attempt: From 1 to 1000000.
            lease: Milliseconds from now. From 100 to 3600000.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            LeaseHeld: Another holder has the lease; the context has the `holder` and `expires_at`.
            IllegalTransition: The status or machine transition is not allowed; the context has the `allowed` ones.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.STEP_RENEW, locals())

    @writes(operations.STEP_ONCE)
    async def step_once(
        self,
        *,
        run_id: str,
        step: str,
        token: int,
        key: str,
        result: Json = MISSING,
    ) -> OnceRecorded:
        """Record the result of a side effect of a step, once.

        The first result is kept.

        Args:
            result: The result to record; left out, it is only looked up.

        Raises:
            NotFound: No such session, memory, artifact, agent, window or version.
            LeaseHeld: Another holder has the lease; the context has the `holder` and `expires_at`.
            HiveError: As any operation: InvalidRequest, Forbidden, TooLarge, Overloaded, Internal, Unavailable,
                IdempotencyConflict.
        """
        return await self._send(operations.STEP_ONCE, locals())
