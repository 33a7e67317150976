"""The sessions of runs: their state is the run's, and each result becomes an event."""

from typing import Any, NamedTuple

from hivemem_agents.workflows.decisions.definitions import Plan
from hivemem_agents.workflows.endpoints.plans import RunFacts
from hivemem_agents.workflows.entities import StepExecution
from hivemem_contracts.errors import HiveError, IllegalTransition
from hivemem_contracts.identifiers import derived_id
from hivemem_contracts.sessions import operations, requests
from hivemem_contracts.sessions.models import NewEvent
from hivemem_runtime.bus.requests.outgoing import Asking


class SessionView(NamedTuple):
    """The state of a session, or why the run cannot go on with it."""

    state: dict[str, Any] | None
    failure: dict[str, Any] | None = None


class RunSessions:
    """The sessions service, called over the bus in the name of the agents that run steps."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking

    async def require(self, tenant: str, agent: str, session_id: str) -> dict[str, Any]:
        """Return the state of a session that takes events. Raises `NotFound` and `IllegalTransition`."""
        body = requests.GetSession(session_id=session_id)
        session = (await self._asking.ask(tenant, agent, operations.GET, body))["session"]
        if session["status"] in ("terminated", "archived"):
            raise IllegalTransition(
                f"session {session_id!r} is {session['status']}: it takes no events",
                status=session["status"],
                allowed=[],
            )
        state: dict[str, Any] = session["state"]
        return state

    async def view(self, tenant: str, facts: RunFacts) -> SessionView:
        """Return the state of the run's session; nothing for a run without one."""
        if facts.session_id is None:
            return SessionView(None)
        try:
            return SessionView(await self.require(tenant, facts.created_by, facts.session_id))
        except HiveError as error:
            return SessionView({}, failure_of(error))

    async def append(self, tenant: str, facts: RunFacts, plan: Plan, step: StepExecution) -> SessionView:
        """Append the accepted result of a step, once, and return the state after it."""
        assert facts.session_id is not None, "the run has a session"
        assert step.accepted is not None, "the step has a result"
        result, failed = step.accepted["result"], step.accepted["status"] == "failed"
        body: dict[str, Any] = {}
        save = plan.steps[step.id].declared.save
        if save is not None and not failed and step.kind != "compensation":
            body = {"state_nulls": [save]} if result is None else {"state_delta": {save: result}}
        event_id = derived_id("run", step.run_id, str(step.number), str(step.attempt))
        suffix = ".failed" if failed else ".compensated" if step.kind == "compensation" else ""
        about = {"workflow": facts.name, "run_id": step.run_id, "step": step.id, "attempt": step.attempt}
        event = NewEvent(event_id=event_id, type=f"{step.id}{suffix}", content=result, metadata=about)
        append = requests.AppendEvent(session_id=facts.session_id, event=event, **body)
        try:
            agent = step.claimed_by or facts.created_by
            await self._asking.ask(tenant, agent, operations.APPEND, append, message_id=event_id)
        except HiveError as error:
            return SessionView({}, failure_of(error))
        return await self.view(tenant, facts)


def failure_of(error: HiveError) -> dict[str, Any]:
    """Return what a run fails with. Raises the error if it may pass."""
    if error.retryable:
        raise error
    return {"name": error.name, "code": error.code, "detail": error.detail}
