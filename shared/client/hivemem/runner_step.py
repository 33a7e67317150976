"""A step of a runner: its context is retrieved before it, and it is logged in the session after it."""

import asyncio
import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Final, Literal, ParamSpec, TypeVar, cast

from pydantic_core import to_json

from hivemem.connection import ClientClosed
from hivemem.runner_context import STARTED, ContextBuilder, StepContext
from hivemem.runner_services import hive_of
from hivemem.runner_values import logged, logged_error
from hivemem_contracts.errors import HiveError, InvalidRequest
from hivemem_contracts.identifiers import new_id
from hivemem_contracts.limits import QUERY_CHARACTERS
from hivemem_contracts.sessions.replies import SessionView
from hivemem_contracts.vectors.replies import RecallAnswer

if TYPE_CHECKING:
    from hivemem.runner import Runner

log = logging.getLogger("hivemem")

RETRIEVAL_SECONDS: Final = 5.0
"""How long a step waits for its context."""

CANCELLED_SECONDS: Final = 2.0
"""How long a cancelled step takes for its log."""

MEMORIES: Final = 20
CYCLE_VALUE_BYTES: Final = 65_536
"""A larger input or output is in the events of a step, and not in its cycle, too."""

CURRENT_STEP: Final[ContextVar["RunnerStep | None"]] = ContextVar("hivemem_step", default=None)
"""The step that the running code belongs to."""

Arguments = ParamSpec("Arguments")
ResultT = TypeVar("ResultT")
FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
REASON_CHARACTERS: Final = 4_000
Ending = Literal["completed", "failed", "cancelled"]
_OUTCOMES: Final[Mapping[Ending, Literal["success", "failure", "interrupted"]]] = {
    "completed": "success",
    "failed": "failure",
    "cancelled": "interrupted",
}


@dataclass(frozen=True, slots=True)
class WantedContext:
    """What a step asks for before it begins."""

    max_tokens: int
    events: int
    wait_ms: int | None
    required: bool

    def __post_init__(self) -> None:
        if self.max_tokens < 1:
            raise InvalidRequest(f"max_tokens: at least 1 is wanted, got {self.max_tokens!r}", field="max_tokens")


@dataclass(eq=False)
class RunnerStep:
    """A step under way. Set `output` in a block; for a decorated function, it is the result."""

    runner: "Runner"
    name: str
    query: str | None
    inputs: Any
    wanted: WantedContext
    outer: "RunnerStep | None"
    """The step around this one, which may be of another runner."""

    output: Any = None
    context: StepContext = field(default_factory=StepContext)
    event_id: str = field(default_factory=new_id)
    """The id of its event `step.started`."""

    cycle: int | None = None
    """The number of the agent's cycle that it belongs to."""

    artifacts: list[str] = field(default_factory=list[str])
    """The URLs of the files that it saved."""

    begun_cycle: bool = field(default=False, init=False)
    """Whether it began its cycle, and did not go on with an interrupted one."""

    _started: float = field(default=0.0, init=False)

    @property
    def parent(self) -> "RunnerStep | None":
        """The step of its runner that it is a part of."""
        return nearest_step(self.runner, self.outer)

    @property
    def has_cycle(self) -> bool:
        """Whether it is a cycle itself, not a part of one."""
        return self.runner.agent_id is not None and self.parent is None

    async def start(self) -> None:
        """Retrieve the context, begin or continue the cycle, and log the start."""
        if self.has_cycle:
            await self.runner.cycle_lock.acquire()
        try:
            self.context = await self._retrieve()
            if self.has_cycle:
                await self._begin_cycle()
            if self.parent is not None:
                self.cycle = self.parent.cycle
            content = {
                "step": self.name,
                "input": logged(self.inputs),
                "query": logged(self.query),
                "retrieved": self.context.named(),
                **({} if self.cycle is None else {"cycle": self.cycle}),
                **({} if self.cycle is None or self.begun_cycle or not self.has_cycle else {"resumed": True}),
            }
            parent_id = None if self.parent is None else self.parent.event_id
            await self.runner.log(STARTED, content, event_id=self.event_id, parent_id=parent_id)
        except BaseException as error:
            self.runner.standing_known = False
            if isinstance(error, HiveError) and self.begun_cycle:
                await self._abandon(f"step {self.name!r} could not start: {error}")
            self._release()
            raise
        self._started = time.perf_counter()

    async def finish(self, error: BaseException | None) -> None:
        """Log the end. If the step failed, an error of its log is noted on its own error; otherwise it is raised."""
        try:
            if error is None:
                await self._log_end("completed", None)
            elif isinstance(error, Exception):
                try:
                    await self._log_end("failed", error)
                except (HiveError, ClientClosed) as unlogged:
                    self.runner.standing_known = False
                    error.add_note(f"step {self.name!r} is not logged: {unlogged}")
            else:
                await self._log_cancelled(error)
        except BaseException:
            self.runner.standing_known = False
            raise
        finally:
            self._release()

    def _release(self) -> None:
        if self.has_cycle:
            self.runner.cycle_lock.release()

    async def _log_cancelled(self, error: BaseException) -> None:
        try:
            async with asyncio.timeout(CANCELLED_SECONDS):
                await self._log_end("cancelled", error)
        except (HiveError, ClientClosed, TimeoutError) as unlogged:
            self.runner.standing_known = False
            log.warning("step %r was cancelled, and is not logged: %s", self.name, unlogged)

    async def _log_end(self, ending: Ending, error: BaseException | None) -> None:
        output, failure = logged(self.output), None if error is None else logged_error(error)
        content = {
            "step": self.name,
            **({"output": output} if failure is None else {"error": failure}),
            "duration_ms": round((time.perf_counter() - self._started) * 1_000, 3),
            **({} if self.cycle is None else {"cycle": self.cycle}),
        }
        await self.runner.log(f"step.{ending}", content, parent_id=self.event_id)
        if self.has_cycle:
            assert self.runner.services.agents is not None, "an agent has its service"
            assert self.cycle is not None, "the step has begun"
            await self.runner.services.agents.complete(
                agent_id=cast("str", self.runner.agent_id),
                number=self.cycle,
                outcome=_OUTCOMES[ending],
                output=_in_cycle(output),
                error=failure,
                artifacts=self.artifacts,
                **self._claim(),
            )

    async def _abandon(self, reason: str) -> None:
        """End the cycle of a step that could not start. If that fails too, the next step does it."""
        assert self.runner.services.agents is not None, "an agent has its service"
        agent_id, number = cast("str", self.runner.agent_id), cast("int", self.cycle)
        with suppress(HiveError):
            await self.runner.services.agents.abandon(
                agent_id=agent_id, number=number, reason=reason[:REASON_CHARACTERS], **self._claim()
            )

    async def _begin_cycle(self) -> None:
        """Begin a cycle with the step as its proposal, or go on with the interrupted one if it is of the same step.
        Another interrupted cycle is abandoned."""
        agents, agent_id = self.runner.services.agents, self.runner.agent_id
        assert agents is not None, "an agent has its service"
        assert agent_id is not None, "the step has a cycle"
        if not self.runner.standing_known:
            self.runner.interrupted = (await agents.resume(agent_id=agent_id)).cycle
            self.runner.standing_known = True
        interrupted, self.runner.interrupted = self.runner.interrupted, None
        claim = self._claim()
        if interrupted is not None:
            plan = None if interrupted.proposal is None else interrupted.proposal.plan
            if isinstance(plan, dict) and plan.get("step") == self.name:
                self.cycle = interrupted.number
                return
            reason = f"step {self.name!r} began instead"
            await agents.abandon(agent_id=agent_id, number=interrupted.number, reason=reason, **claim)
        begun = await agents.cycle_begin(agent_id=agent_id, session_id=self.runner.session_id, **claim)
        self.cycle, self.begun_cycle = begun.number, True
        plan = {"step": self.name, "event_id": self.event_id, "input": _in_cycle(logged(self.inputs))}
        await agents.propose(agent_id=agent_id, number=begun.number, plan=plan, **claim)

    def _claim(self) -> dict[str, Any]:
        return {} if self.runner.lease is None else {"lease": self.runner.lease.claim}

    async def _retrieve(self) -> StepContext:
        memories, view = await asyncio.gather(
            self._recalled(), self._viewed(), return_exceptions=not self.wanted.required
        )
        degraded: dict[str, str] = {}
        for name, found in (("memories", memories), ("session", view)):
            if isinstance(found, HiveError):
                degraded[name] = f"{found.name}: {found.detail}"
            elif isinstance(found, BaseException):
                raise found
        if isinstance(memories, RecallAnswer) and memories.degraded is not None:
            degraded["memories"] = memories.degraded.detail
        items = memories.items if isinstance(memories, RecallAnswer) else []
        state, newest = (view.session.state, view.events) if isinstance(view, SessionView) else ({}, [])
        builder = ContextBuilder(self.wanted.max_tokens, self.runner.count_tokens)
        return builder.build(items, state, newest, degraded)

    async def _recalled(self) -> RecallAnswer | None:
        if not self.query:
            return None
        vectors = hive_of(self.runner.services.vectors).with_options(timeout_seconds=RETRIEVAL_SECONDS).vectors
        return await vectors.recall(
            query=self.query,
            namespace_prefix=self.runner.namespace,
            limit=MEMORIES,
            max_tokens=self.wanted.max_tokens,
            wait_ms=self.wanted.wait_ms,
        )

    async def _viewed(self) -> SessionView:
        hive = self.runner.hive.with_options(timeout_seconds=RETRIEVAL_SECONDS, large_values=False)
        return await hive.sessions.get(session_id=self.runner.session_id, events=self.wanted.events)


class StepHook:
    """What `runner.step` returns: decorate a coroutine function with it, or enter it with `async with`."""

    def __init__(
        self,
        runner: "Runner",
        name: str,
        query: str | Callable[..., str] | None,
        inputs: Any,
        wanted: WantedContext,
    ) -> None:
        self.runner = runner
        self.name = name
        self._query = query
        self._inputs = inputs
        self._wanted = wanted
        self._entered: RunnerStep | None = None

    def made(self) -> RunnerStep:
        """Return a new step for a block."""
        if callable(self._query):
            raise TypeError(f"step {self.name!r}: a block has no arguments for its query: pass text")
        return self._step(_query_of(self._query, self._inputs), self._inputs)

    def made_for(self, function: Callable[..., object], args: tuple[Any, ...], given: dict[str, Any]) -> RunnerStep:
        """Return a new step for a call of a decorated function."""
        bound = inspect.signature(function).bind(None, *args, **given)
        arguments = dict(list(bound.arguments.items())[1:])
        query = self._query(*args, **given) if callable(self._query) else self._query
        return self._step(_query_of(query, arguments), {name: logged(value) for name, value in arguments.items()})

    def _step(self, query: str | None, inputs: Any) -> RunnerStep:
        return RunnerStep(self.runner, self.name, query, inputs, self._wanted, CURRENT_STEP.get())

    async def __aenter__(self) -> RunnerStep:
        assert self._entered is None, "a step is entered once at a time: call runner.step for each"
        step = self.made()
        await step.start()
        self._entered = step
        CURRENT_STEP.set(step)
        return step

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        step, self._entered = self._entered, None
        assert step is not None, "it was entered"
        CURRENT_STEP.set(step.outer)
        await step.finish(error)

    def __call__(
        self, function: Callable[Concatenate[RunnerStep, Arguments], Awaitable[ResultT]]
    ) -> Callable[Arguments, Coroutine[Any, Any, ResultT]]:
        """Return the function as a step: each call is a step of its own."""

        @wraps(function)
        async def run(*args: Arguments.args, **given: Arguments.kwargs) -> ResultT:
            step = self.made_for(function, args, given)
            await step.start()
            CURRENT_STEP.set(step)
            try:
                step.output = result = await function(step, *args, **given)
            except BaseException as error:
                CURRENT_STEP.set(step.outer)
                await step.finish(error)
                raise
            CURRENT_STEP.set(step.outer)
            await step.finish(None)
            return result

        return without_the_step(run, function)


def without_the_step(run: FunctionT, function: Callable[..., object]) -> FunctionT:
    """Return a decorated function with its signature as its callers see it: the first parameter is the step."""
    signature = inspect.signature(function)
    vars(run)["__signature__"] = signature.replace(parameters=list(signature.parameters.values())[1:])
    return run


def nearest_step(runner: "Runner", step: RunnerStep | None) -> RunnerStep | None:
    """Return a step, or the nearest one around it, that is of a runner."""
    while step is not None and step.runner is not runner:
        step = step.outer
    return step


def _query_of(query: str | None, inputs: object) -> str | None:
    """Return the question of a step: the given one, or else the text of its input."""
    if query is None:
        values = cast("Mapping[str, object]", inputs).values() if isinstance(inputs, Mapping) else (inputs,)
        query = "\n".join(value for value in values if isinstance(value, str))
    return query[:QUERY_CHARACTERS] if query.strip() else None


def _in_cycle(value: Any) -> Any:
    """Return a value if it is small enough for a cycle."""
    size = len(to_json(value))
    return value if size <= CYCLE_VALUE_BYTES else {"omitted_bytes": size}
