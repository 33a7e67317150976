"""The runner: the session, memories, files and cycles of one agent in one object."""

import asyncio
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from pydantic import JsonValue, TypeAdapter, ValidationError

from hivemem.artifacts import Artifacts
from hivemem.methods import suggesting
from hivemem.runner_context import TokenCounter, estimated_tokens
from hivemem.runner_services import RunnerServices, hive_of
from hivemem.runner_step import CURRENT_STEP, RunnerStep, StepHook, WantedContext, nearest_step
from hivemem.services.agents import AgentsOperations
from hivemem.services.memory import MemoryOperations
from hivemem.sessions import Sessions
from hivemem.upload_sources import BytesSource
from hivemem.vectors import Vectors
from hivemem_contracts.agents.models import Cycle
from hivemem_contracts.artifacts.models import Artifact
from hivemem_contracts.errors import AlreadyExists, InvalidRequest, NotFound
from hivemem_contracts.identifiers import Namespace, new_id
from hivemem_contracts.json_values import Json
from hivemem_contracts.memory.models import MemoryType, Source
from hivemem_contracts.memory.replies import MemoryWritten
from hivemem_contracts.sessions.models import Event, NewEvent, Session
from hivemem_contracts.sessions.replies import Appended
from hivemem_contracts.vectors.replies import RecallAnswer

if TYPE_CHECKING:
    from hivemem.hive import Hive
    from hivemem.leases import Lease

CONTEXT_TOKENS: Final = 2_000
_NAMESPACE: Final[TypeAdapter[str]] = TypeAdapter(Namespace)


class Runner:
    """One agent's session, memories, files and cycles, and steps that log themselves.

    Each service comes from a client, such as `hive.sessions`, and the clients may belong to different fleets;
    `Runner.of` takes them all from one. Use it with `async with`: it asks every service at once, and an error names the
    services that it does not find within two seconds. The session `session_id` is created if it does not exist, which
    needs `app_name` and `user_id`. Memories are in `namespace`, by default `user:<user_id>`. With an `agent_id`, each
    step is a cycle of that agent, so that a program that was killed goes on where it stood; a `lease` that the program
    holds keeps other programs from running the agent. `count_tokens` counts the tokens of a context, by default a
    quarter of its bytes.

    Raises `InvalidRequest` at once for a service that is missing, or in the place of another one.
    """

    def __init__(
        self,
        *,
        sessions: Sessions,
        vectors: Vectors,
        memory: MemoryOperations,
        artifacts: Artifacts,
        agents: AgentsOperations | None = None,
        session_id: str | None = None,
        app_name: str | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
        namespace: str | None = None,
        lease: "Lease | None" = None,
        count_tokens: TokenCounter = estimated_tokens,
    ) -> None:
        self.services = RunnerServices(sessions, vectors, memory, artifacts, agents)
        if agent_id is not None and agents is None:
            raise InvalidRequest("agents: an `agent_id` needs `hive.agents`", field="agents")
        if session_id is None and (app_name is None or user_id is None):
            raise InvalidRequest("session_id: give one, or `app_name` and `user_id` for a new one", field="session_id")
        self.session_id = session_id or new_id()
        self.agent_id = agent_id
        self.lease = lease
        self.count_tokens = count_tokens
        self.interrupted: Cycle | None = None
        """The cycle that an earlier program of this agent left open. The step of its name goes on with it."""
        self.standing_known = True
        """Whether `interrupted` is up to date: not after a step whose start or end failed."""
        self.cycle_lock = asyncio.Lock()
        """Steps that are cycles take turns: an agent has one open cycle."""
        self._app_name = app_name
        self._user_id = user_id
        self._namespace = None if namespace is None else checked_namespace(namespace)

    @classmethod
    def of(
        cls,
        hive: "Hive",
        *,
        session_id: str | None = None,
        app_name: str | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
        namespace: str | None = None,
        lease: "Lease | None" = None,
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
    def current_step(self) -> RunnerStep | None:
        """The step that the running code belongs to."""
        return nearest_step(self, CURRENT_STEP.get())

    @property
    def namespace(self) -> str:
        """The namespace of its memories."""
        assert self._namespace is not None, "the runner was entered"
        return self._namespace

    async def __aenter__(self) -> Self:
        """Check the services, find or create the session, and register the agent.

        Raises `Unavailable`, or the error that all services share, with the names of the silent services;
        `NotFound` for a session that does not exist without an `app_name` and a `user_id`; and `InvalidRequest` for a
        session of another user or app.
        """
        await self.services.check()
        session = await self._session()
        if self._namespace is None:
            self._namespace = checked_namespace(f"user:{session.user_id}")
        if self.agent_id is not None:
            assert self.services.agents is not None, "an agent has its service"
            await self.services.agents.register(agent_id=self.agent_id)
            self.interrupted = (await self.services.agents.resume(agent_id=self.agent_id)).cycle
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Do nothing: the clients belong to the program, which closes them."""

    async def _session(self) -> Session:
        sessions, session_id = self.services.sessions, self.session_id
        try:
            found: Session = (await sessions.get(session_id=session_id)).session
        except NotFound:
            if self._app_name is None or self._user_id is None:
                raise
            try:
                return await sessions.create(session_id=session_id, app_name=self._app_name, user_id=self._user_id)
            except AlreadyExists:  # by another program, at the same time
                found = (await sessions.get(session_id=session_id)).session
        for name, wanted in (("app_name", self._app_name), ("user_id", self._user_id)):
            if wanted is not None and getattr(found, name) != wanted:
                detail = f"{name}: session {session_id!r} has {getattr(found, name)!r}, not {wanted!r}"
                raise InvalidRequest(detail, field=name)
        return found

    async def save_state(self, values: Mapping[str, Json]) -> Appended:
        """Change keys of the session's state in one atomic step, with an event `state.saved`. `None` deletes a key."""
        return await self.log("state.saved", {"keys": sorted(values)}, state_delta=dict(values))

    async def load_state(self) -> dict[str, JsonValue]:
        """Return the state of the session."""
        return (await self.services.sessions.state_get(session_id=self.session_id)).state or {}

    @suggesting
    async def save_artifact(
        self,
        name: str,
        source: BytesSource,
        *,
        content_type: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> Artifact:
        """Save a file as the next version of its name in the session, with an event `artifact.saved`.

        `source` is as in `hive.artifacts.upload`. The result of the step's cycle names the file, too.
        """
        artifact = await self.services.artifacts.upload(
            self.session_id, name, source, content_type=content_type, metadata=metadata
        )
        step = self.current_step
        while step is not None:
            step.artifacts.append(artifact.url)
            step = step.parent
        fields = ("name", "version", "url", "size", "sha256", "content_type")
        await self.log("artifact.saved", {name: getattr(artifact, name) for name in fields})
        return artifact

    @suggesting
    async def remember(
        self,
        content: Json,
        *,
        key: str | None = None,
        importance: float | None = None,
        memory_type: MemoryType = "semantic",
        metadata: dict[str, Any] | None = None,
    ) -> MemoryWritten:
        """Put a memory into the runner's namespace: a new one, or the next version of `key`. Its source is the session
        and, within a step, the step's event and cycle."""
        step = self.current_step
        source: dict[str, Any] = {"session_id": self.session_id}
        if step is not None:
            source["event_id"] = step.event_id
        if self.agent_id is not None:
            source["agent_id"] = self.agent_id
            if step is not None and step.cycle is not None:
                source["cycle"] = step.cycle
        given = {"importance": importance, "metadata": metadata}
        fields: Any = {name: value for name, value in given.items() if value is not None}
        return await self.services.memory.put(
            namespace=self.namespace,
            key=key or new_id(),
            value=content,
            memory_type=memory_type,
            source=Source(**source),
            **fields,
        )

    @suggesting
    async def recall(
        self, query: str, *, limit: int = 10, max_tokens: int | None = None, wait_ms: int | None = None
    ) -> RecallAnswer:
        """Find memories of the runner's namespace, and below it, by meaning and by words."""
        return await self.services.vectors.recall(
            query=query, namespace_prefix=self.namespace, limit=limit, max_tokens=max_tokens, wait_ms=wait_ms
        )

    async def events(self, limit: int = 50, *, type: str | None = None) -> list[Event]:
        """Return the newest events of the session, oldest first."""
        page = await self.services.sessions.events(session_id=self.session_id, type=type, limit=limit, reverse=True)
        return page.items[::-1]

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
    ) -> StepHook:
        """Return a step: a decorator for a coroutine function, or the context of an `async with` block.

            @runner.step("answer")
            async def answer(step: hivemem.RunnerStep, question: str) -> str: ...

            async with runner.step("answer", query=question) as step: ...

        Before it begins, its context is retrieved: memories for `query`, the state and the newest `events`, at most
        `max_tokens`; `wait_ms` waits until earlier memories are indexed. A decorated function gets the step as its
        first argument; `query` may be a function of the others, and is by default the text among them. A failed
        retrieval is noted in the context, unless `require_context` raises its error. The session gets
        an event `step.started`, and then `step.completed`, `step.failed` or `step.cancelled`. With an `agent_id`, a
        step that is not within another one is a cycle.
        """
        wanted = WantedContext(max_tokens, events, wait_ms, required=require_context)
        return StepHook(self, name, query, inputs, wanted)

    async def log(
        self,
        type: str,
        content: Json,
        *,
        event_id: str | None = None,
        parent_id: str | None = None,
        state_delta: dict[str, Json] | None = None,
    ) -> Appended:
        """Append an event to the session. Within a step, its parent is the step's event."""
        step = self.current_step
        if parent_id is None and step is not None:
            parent_id = step.event_id
        return await self.services.sessions.append(
            session_id=self.session_id,
            event=NewEvent(event_id=event_id, type=type, content=content, parent_id=parent_id),
            state_delta=state_delta,
        )

    @property
    def hive(self) -> "Hive":
        """The client of its sessions."""
        return hive_of(self.services.sessions)


def checked_namespace(namespace: str) -> str:
    """Return a namespace. Raises `InvalidRequest` for any other text."""
    try:
        return _NAMESPACE.validate_python(namespace)
    except ValidationError as error:
        raise InvalidRequest(f"namespace: {error.errors()[0]['msg']}, got {namespace!r}", field="namespace") from error
