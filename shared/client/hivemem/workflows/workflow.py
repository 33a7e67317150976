"""A workflow in a program: it starts runs and works on them."""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Final

from hivemem.connection import ClientClosed
from hivemem.workflows.declarations import definition_of
from hivemem.workflows.step_runner import Handler, StepRunner
from hivemem_contracts.agents.workflows.definition import WorkflowDefinition
from hivemem_contracts.agents.workflows.models import Run
from hivemem_contracts.agents.workflows.replies import StepsClaimed
from hivemem_contracts.errors import HiveError
from hivemem_contracts.identifiers import new_id
from hivemem_contracts.json_values import Json
from hivemem_contracts.limits import STEPS_CLAIMED

if TYPE_CHECKING:
    from hivemem.hive import Hive

log = logging.getLogger("hivemem")

LEASE_SECONDS: Final = 15.0
WAIT_MS: Final = 2_000
"""How long one claim waits for a step; a process that ends meanwhile may be given one that it never runs."""
PAUSE_SECONDS: Final = 1.0
ENDED: Final = ("completed", "failed", "compensated", "cancelled")


class WorkflowHandlers:
    """A workflow with the handlers of its steps. `hive.workflows.handlers` makes one for a stored definition."""

    def __init__(
        self, hive: "Hive", name: str, handlers: Mapping[str, Handler], definition: WorkflowDefinition | None = None
    ) -> None:
        self._hive = hive.with_options(message_id=None)
        self.name = name
        self.definition = definition
        self._handlers = dict(handlers)
        self._applied = definition is None

    async def apply(self) -> None:
        """Store the definition of the class, if it is new or has changed; `start`, `run` and `serve` do it as well."""
        if not self._applied and self.definition is not None:
            await self._hive.agents.workflow_put(name=self.name, definition=self.definition)
            self._applied = True

    async def start(self, *, input: Json = None, run_id: str | None = None, session_id: str | None = None) -> Run:
        """Start a run, and return it at once; processes that serve the workflow take its steps."""
        await self.apply()
        return await self._hive.agents.run_start(
            name=self.name, input=input, run_id=run_id or new_id(), session_id=session_id
        )

    async def run(
        self,
        *,
        input: Json = None,
        run_id: str | None = None,
        session_id: str | None = None,
        concurrency: int = 8,
        lease_seconds: float = LEASE_SECONDS,
    ) -> Run:
        """Start a run, work on its steps until it ends, and return it. Other processes may take steps as well."""
        run = await self.start(input=input, run_id=run_id, session_id=session_id)
        await self._work(concurrency, lease_seconds, run.run_id)
        return await self._hive.agents.run_get(run_id=run.run_id)

    async def serve(self, *, concurrency: int = 8, lease_seconds: float = LEASE_SECONDS) -> None:
        """Work on the steps of all runs, at most `concurrency` at a time, until it is cancelled.

        A step whose process ends is given to another one after `lease_seconds`.
        """
        await self.apply()
        await self._work(concurrency, lease_seconds, None)

    async def _work(self, concurrency: int, lease_seconds: float, run_id: str | None) -> None:
        runner = StepRunner(self._hive, self._handlers, lease_seconds)
        tasks: set[asyncio.Task[None]] = set()
        try:
            while True:
                free = concurrency - len(tasks)
                if free <= 0:
                    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                    tasks = {task for task in tasks if not task.done()}
                    continue
                ended = await self._claim(runner, tasks, min(free, STEPS_CLAIMED), lease_seconds, run_id)
                tasks = {task for task in tasks if not task.done()}
                if ended:
                    return
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _claim(
        self,
        runner: StepRunner,
        tasks: set[asyncio.Task[None]],
        limit: int,
        lease_seconds: float,
        run_id: str | None,
    ) -> bool:
        """Claim steps and begin them; return whether the one run to work on has ended."""
        options = self._hive.options
        patient = self._hive.with_options(attempt_seconds=options.attempt_seconds + WAIT_MS / 1_000)
        claiming = asyncio.ensure_future(
            patient.agents.step_claim(
                name=self.name,
                run_id=run_id,
                handlers=list(self._handlers),
                lease=round(lease_seconds * 1_000),
                wait_ms=WAIT_MS,
                limit=limit,
            )
        )
        try:
            claimed = await asyncio.shield(claiming)
        except asyncio.CancelledError:
            # The request goes on at the worker: what it claims is given back at once.
            self._hive.connection.in_background(lambda: _give_back(runner, claiming))
            raise
        except HiveError as error:
            if not error.retryable:
                raise
            log.warning("no steps of workflow %s can be claimed: %s", self.name, error)
            await asyncio.sleep(PAUSE_SECONDS)
            return False
        tasks.update(asyncio.create_task(runner.run(step)) for step in claimed.items)
        return run_id is not None and not claimed.items and claimed.run_status in ENDED


async def _give_back(runner: StepRunner, claiming: "asyncio.Future[StepsClaimed]") -> None:
    with suppress(HiveError, ClientClosed):
        for step in (await claiming).items:
            await runner.give_back(step)


class Workflow:
    """The base of classes whose coroutine methods are the steps of a workflow. `@hive.workflow` binds such a class to a
    client."""

    _handlers: ClassVar[WorkflowHandlers | None] = None

    @classmethod
    def bind(cls, hive: "Hive", name: str | None) -> None:
        """Bind the class to a client, under its own name in lower case or another one. Raises `TypeError` for steps
        that it does not have."""
        definition, names = definition_of(cls, (object, Workflow))
        taken = [each for each in names if each in vars(Workflow)]
        if taken:
            raise TypeError(f"{cls.__name__}.{taken[0]}: the name is that of a method of Workflow, so no step has it")
        made = cls()
        handlers = {each: getattr(made, each) for each in names}
        cls._handlers = WorkflowHandlers(hive, name or cls.__name__.lower(), handlers, definition)

    @classmethod
    def handlers(cls) -> WorkflowHandlers:
        """Return the workflow with its handlers. Raises `TypeError` for a class that is bound to no client."""
        if cls._handlers is None:
            raise TypeError(f"{cls.__name__} is bound to no client: decorate it with @hive.workflow")
        return cls._handlers

    @classmethod
    async def start(cls, *, input: Json = None, run_id: str | None = None, session_id: str | None = None) -> Run:
        """Start a run, and return it at once; processes that serve the workflow take its steps."""
        return await cls.handlers().start(input=input, run_id=run_id, session_id=session_id)

    @classmethod
    async def run(
        cls,
        *,
        input: Json = None,
        run_id: str | None = None,
        session_id: str | None = None,
        concurrency: int = 8,
        lease_seconds: float = LEASE_SECONDS,
    ) -> Run:
        """Start a run, work on its steps until it ends, and return it. Other processes may take steps as well."""
        return await cls.handlers().run(
            input=input, run_id=run_id, session_id=session_id, concurrency=concurrency, lease_seconds=lease_seconds
        )

    @classmethod
    async def serve(cls, *, concurrency: int = 8, lease_seconds: float = LEASE_SECONDS) -> None:
        """Work on the steps of all runs, at most `concurrency` at a time, until it is cancelled.

        A step whose process ends is given to another one after `lease_seconds`.
        """
        await cls.handlers().serve(concurrency=concurrency, lease_seconds=lease_seconds)


def bound(hive: "Hive", name: str | None, kind: type) -> type[Workflow]:
    """Return a class that is bound to a client: the class itself, or one on top of it that has the methods of
    `Workflow`."""
    plain: Any = kind
    workflow: type[Workflow] = plain if issubclass(kind, Workflow) else type(kind.__name__, (plain, Workflow), {})
    workflow.bind(hive, name)
    return workflow
