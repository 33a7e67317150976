"""The runner, for programs without an event loop."""

from collections.abc import Callable
from functools import wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from hivemem.methods import suggesting
from hivemem.runner import CONTEXT_TOKENS, Runner
from hivemem.runner_context import TokenCounter, estimated_tokens
from hivemem.runner_step import CURRENT_STEP, RunnerStep, StepHook, WantedContext, without_the_step
from hivemem.sync.artifacts import BlockingArtifacts, BlockingBytesSource, source_of
from hivemem.sync.blocking import Blocking, blocking
from hivemem.sync.leases import BlockingLease
from hivemem.sync.loop_thread import LoopThread
from hivemem.sync.services import BlockingAgentsOperations, BlockingMemoryOperations
from hivemem.sync.sessions import BlockingSessions
from hivemem.sync.vectors import BlockingVectors
from hivemem_contracts.agents.models import Cycle
from hivemem_contracts.artifacts.models import Artifact
from hivemem_contracts.errors import InvalidRequest

if TYPE_CHECKING:
    from hivemem.sync.hive import BlockingHive

Arguments = ParamSpec("Arguments")
ResultT = TypeVar("ResultT")


class BlockingRunner(Blocking[Runner]):
    """One agent's session, memories, files and cycles, and steps that log themselves: as `hivemem.Runner`, with `with`.

    All of its services belong to one client, `hivemem.sync.Hive`, because they work in its thread. Raises
    `InvalidRequest` at once for a service that is missing, or in the place of another one.
    """

    def __init__(
        self,
        *,
        sessions: BlockingSessions,
        vectors: BlockingVectors,
        memory: BlockingMemoryOperations,
        artifacts: BlockingArtifacts,
        agents: BlockingAgentsOperations | None = None,
        session_id: str | None = None,
        app_name: str | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
        namespace: str | None = None,
        lease: BlockingLease | None = None,
        count_tokens: TokenCounter = estimated_tokens,
    ) -> None:
        given: dict[str, Any] = {"sessions": sessions, "vectors": vectors, "memory": memory, "artifacts": artifacts}
        given["agents"] = agents
        runner = Runner(
            **{name: getattr(service, "wrapped", service) for name, service in given.items()},
            session_id=session_id,
            app_name=app_name,
            user_id=user_id,
            agent_id=agent_id,
            namespace=namespace,
            lease=None if lease is None else lease.wrapped,
            count_tokens=count_tokens,
        )
        for name, service in given.items():
            if service is not None and service.thread is not sessions.thread:
                raise InvalidRequest(f"{name}: it belongs to another client than `sessions`", field=name)
        super().__init__(runner, sessions.thread)

    @classmethod
    def of(
        cls,
        hive: "BlockingHive",
        *,
        session_id: str | None = None,
        app_name: str | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
        namespace: str | None = None,
        lease: BlockingLease | None = None,
        count_tokens: TokenCounter = estimated_tokens,
    ) -> Self:
        """Make a runner whose services are all of one client."""
        return cls(
            sessions=hive.sessions,
            vectors=hive.vectors,
            memory=hive.memory,
            artifacts=hive.artifacts,
            agents=None if agent_id is None else hive.agents,
            session_id=session_id,
            app_name=app_name,
            user_id=user_id,
            agent_id=agent_id,
            namespace=namespace,
            lease=lease,
            count_tokens=count_tokens,
        )

    @property
    def session_id(self) -> str:
        return self.wrapped.session_id

    @property
    def agent_id(self) -> str | None:
        return self.wrapped.agent_id

    @property
    def namespace(self) -> str:
        """The namespace of its memories."""
        return self.wrapped.namespace

    @property
    def interrupted(self) -> Cycle | None:
        """The cycle that an earlier program of this agent left open. The step of its name goes on with it."""
        return self.wrapped.interrupted

    def __enter__(self) -> Self:
        """Check the services, find or create the session, and register the agent: as `hivemem.Runner`."""
        self.thread.run(self.wrapped.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Do nothing: the client belongs to the program, which closes it."""

    save_state = blocking(Runner.save_state)

    load_state = blocking(Runner.load_state)

    @suggesting
    def save_artifact(
        self,
        name: str,
        source: BlockingBytesSource,
        *,
        content_type: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> Artifact:
        """Save a file as the next version of its name in the session, with an event `artifact.saved`.

        `source` is as in `hive.artifacts.upload`. The result of the step's cycle names the file, too.
        """
        saving = self.wrapped.save_artifact(name, source_of(source), content_type=content_type, metadata=metadata)
        return self.thread.run(saving)

    remember = blocking(Runner.remember)
    recall = blocking(Runner.recall)
    events = blocking(Runner.events)
    log = blocking(Runner.log)

    @suggesting
    def step(
        self,
        name: str,
        *,
        query: str | Callable[..., str] | None = None,
        inputs: Any = None,
        max_tokens: int = CONTEXT_TOKENS,
        events: int = 20,
        wait_ms: int | None = None,
        require_context: bool = False,
    ) -> "BlockingStepHook":
        """Return a step: a decorator for a function, or the context of a `with` block.

            @runner.step("answer")
            def answer(step: hivemem.RunnerStep, question: str) -> str: ...

            with runner.step("answer", query=question) as step: ...

        It does what a step of `hivemem.Runner` does.
        """
        wanted = WantedContext(max_tokens, events, wait_ms, required=require_context)
        return BlockingStepHook(StepHook(self.wrapped, name, query, inputs, wanted), self.thread)


class BlockingStepHook(Blocking[StepHook]):
    """What `runner.step` returns: decorate a function with it, or enter it with `with`."""

    def __init__(self, hook: StepHook, thread: LoopThread) -> None:
        super().__init__(hook, thread)
        self._entered: RunnerStep | None = None

    def __enter__(self) -> RunnerStep:
        assert self._entered is None, "a step is entered once at a time: call runner.step for each"
        self._entered = self._started(self.wrapped.made())
        return self._entered

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        step, self._entered = self._entered, None
        assert step is not None, "it was entered"
        self._finish(step, error)

    def __call__(self, function: Callable[Concatenate[RunnerStep, Arguments], ResultT]) -> Callable[Arguments, ResultT]:
        """Return the function as a step: each call is a step of its own."""

        @wraps(function)
        def run(*args: Arguments.args, **given: Arguments.kwargs) -> ResultT:
            step = self._started(self.wrapped.made_for(function, args, given))
            try:
                step.output = result = function(step, *args, **given)
            except BaseException as error:
                self._finish(step, error)
                raise
            self._finish(step, None)
            return result

        return without_the_step(run, function)

    def _started(self, step: RunnerStep) -> RunnerStep:
        """Start a step, and make it the current one of the calling thread, not of the client's."""
        self.thread.run(step.start())
        CURRENT_STEP.set(step)
        return step

    def _finish(self, step: RunnerStep, error: BaseException | None) -> None:
        CURRENT_STEP.set(step.outer)
        self.thread.run(step.finish(error))
