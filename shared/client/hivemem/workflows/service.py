"""Workflows for people and programs: `hive.workflows`."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from hivemem.workflows.current_step import CurrentStep, current_step
from hivemem.workflows.workflow import Workflow, WorkflowHandlers, bound
from hivemem_contracts.agents.workflows.definition import WorkflowDefinition
from hivemem_contracts.agents.workflows.models import Run, RunStatus, WorkflowView
from hivemem_contracts.agents.workflows.replies import RunPage, WorkflowPage
from hivemem_contracts.json_values import Json

if TYPE_CHECKING:
    from hivemem.hive import Hive

WorkflowT = TypeVar("WorkflowT", bound=Workflow)


class Workflows:
    """Definitions and runs. The operations of any process, claims and reports, are in `hive.agents`."""

    def __init__(self, hive: "Hive") -> None:
        self._hive = hive

    async def apply(
        self, name: str, definition: WorkflowDefinition | Mapping[str, Any], *, expect_version: int | None = None
    ) -> WorkflowView:
        """Store a definition. One that changes nothing makes no version. Raises `InvalidRequest`, which names the step
        and the field, and `RevisionConflict`."""
        model = WorkflowDefinition.model_validate(definition)
        return await self._hive.agents.workflow_put(name=name, definition=model, expect_version=expect_version)

    async def show(self, name: str, *, version: int | None = None) -> WorkflowView:
        """Return a definition. Raises `NotFound`."""
        return await self._hive.agents.workflow_get(name=name, version=version)

    async def list(self, *, limit: int = 50, cursor: str | None = None) -> WorkflowPage:
        """Return the workflows by name."""
        return await self._hive.agents.workflows(limit=limit, cursor=cursor)

    async def start(
        self, name: str, *, input: Json = None, run_id: str | None = None, session_id: str | None = None
    ) -> Run:
        """Start a run. Raises `NotFound` and `AlreadyExists`."""
        return await self._hive.agents.run_start(name=name, input=input, run_id=run_id, session_id=session_id)

    async def run(self, run_id: str, *, limit: int = 50, cursor: str | None = None) -> Run:
        """Return a run with its newest steps. Raises `NotFound`."""
        return await self._hive.agents.run_get(run_id=run_id, limit=limit, cursor=cursor)

    async def runs(
        self,
        *,
        name: str | None = None,
        status: RunStatus | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> RunPage:
        """Return runs, newest first."""
        return await self._hive.agents.runs(name=name, status=status, limit=limit, cursor=cursor)

    async def signal(self, run_id: str, name: str, data: Json = None) -> Run:
        """Send a signal to a run, which keeps it until a step waits for it. Raises `IllegalTransition` for a run that
        has ended."""
        return await self._hive.agents.run_signal(run_id=run_id, name=name, data=data)

    async def cancel(self, run_id: str) -> Run:
        """Cancel a run. Processes that run its steps learn of it when they renew or report."""
        return await self._hive.agents.run_cancel(run_id=run_id)

    async def retry(self, run_id: str, *, step: str | None = None) -> Run:
        """Go on with a run that failed or was cancelled, at the step where it stopped or at another one."""
        return await self._hive.agents.run_retry(run_id=run_id, step=step)

    def handlers(self, name: str, handlers: Mapping[str, Callable[[], Awaitable[Any]]]) -> WorkflowHandlers:
        """Return a stored workflow with handlers by their names, to start runs and work on them."""
        return WorkflowHandlers(self._hive, name, handlers)


class WorkflowsOfClient:
    """The part of a client that is about workflows."""

    def _client(self) -> "Hive":
        return cast("Hive", self)

    @property
    def workflows(self) -> Workflows:
        """Workflows and their runs."""
        return Workflows(self._client())

    @overload
    def workflow(self, kind: type[WorkflowT], /) -> type[WorkflowT]: ...
    @overload
    def workflow(self, /, *, name: str) -> Callable[[type[WorkflowT]], type[WorkflowT]]: ...
    def workflow(self, kind: Any = None, /, *, name: str | None = None) -> Any:
        """Bind a class to this client, as a workflow whose steps are its coroutine methods, in order.

        `@hive.workflow`, or `@hive.workflow(name="order")`; by default, it has the name of the class in lower case. The
        class derives from `hivemem.Workflow`; another class gets its methods as well, which type checkers do not see.
        """
        return partial(bound, self._client(), name) if kind is None else bound(self._client(), name, kind)

    @property
    def step(self) -> CurrentStep:
        """The step that the current task runs. Raises `RuntimeError` outside of one."""
        return current_step()
