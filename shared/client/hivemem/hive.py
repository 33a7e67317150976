"""The client of a fleet, for one agent."""

import inspect
from collections.abc import AsyncIterable, AsyncIterator, Callable, Generator, Mapping, Sequence
from copy import copy
from datetime import datetime
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Literal, Self, Unpack, cast, overload

import pydantic
from pydantic import BaseModel

from hivemem.artifacts import OpenArtifact
from hivemem.attributes import Services
from hivemem.connection import Connection
from hivemem.dead import DeadLetters
from hivemem.feed import Feed
from hivemem.importing import Existing, Imported, import_from
from hivemem.large_values import IN_A_REPLY, READS, resolved
from hivemem.leases import Lease
from hivemem.lines import FilePath
from hivemem.methods import Command, suggesting
from hivemem.options import DEFAULT_AGENT, DEFAULT_TENANT, URL_VARIABLE, CallOptions, OptionFields, default_url
from hivemem.pipeline import PIPELINE_PENDING, Pipeline
from hivemem.publishing import (
    Body,
    Receipt,
    build_body,
    encode_body,
    find_operation,
    prepare,
    publish_prepared,
    write_headers,
)
from hivemem.retries import ask
from hivemem.transfer import Exported, Progress, export_lines, export_to
from hivemem.unseen_messages import UnseenMessages
from hivemem.wait_options import patient_options
from hivemem.window_uses import WindowHandles
from hivemem.workflows.service import WorkflowsOfClient
from hivemem.workspaces import Workspaces
from hivemem_contracts.errors import Internal, InvalidRequest
from hivemem_contracts.limits import INBOX_PREFIX_BYTES
from hivemem_contracts.memory.models import MemoryType
from hivemem_contracts.operations import AnyOperation, Fields, Operation, ReplyT
from hivemem_contracts.sizes import check_size
from hivemem_contracts.streams import MESSAGE_ID
from hivemem_contracts.subjects import inbox_prefix, request_subject
from hivemem_contracts.vectors.models import ItemKind, RecallFilter, Weights
from hivemem_contracts.vectors.operations import RECALL
from hivemem_contracts.vectors.replies import RecallAnswer


class Hive(Services, WorkflowsOfClient, WindowHandles):
    """One agent of one tenant. It connects at its first use; safe to use from many tasks of one event loop at once.

    `url` is one NATS server or several, separated by commas; it may contain a user and a password. Without one, it is
    `HIVEMEM_URL` of the environment, or `nats://127.0.0.1:4222`. `nats_options` are passed to nats-py unchanged:
    `user_credentials`, `nkeys_seed`, `tls` and so on. The other arguments are the options of every call, see
    `CallOptions`. Raises `InvalidRequest` if `url` is malformed, and `TooLarge` if the names are too long. The first
    use raises `Unavailable` if no server answers within `connect_timeout_seconds`, and `Forbidden` if it refuses the
    credentials; then the next use tries again. With `retry_refused=False`, servers that refuse the connection and
    unknown host names are an error at once. Once connected, the client reconnects automatically, without a time limit.

    `hive.sessions.append(session_id=…, event=…)` sends a request and returns its reply. Each operation raises the
    errors of its declaration, and any can raise `InvalidRequest`, `Forbidden`, `TooLarge`, `Overloaded`, `Internal` and
    `Unavailable`. A retryable error is raised only after retries until the deadline. A write whose answer was lost may
    have happened: repeat it with the same `message_id`, and it is applied once.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        tenant: str = DEFAULT_TENANT,
        agent: str = DEFAULT_AGENT,
        connect_timeout_seconds: float = 5.0,
        retry_refused: bool = True,
        nats_options: Mapping[str, Any] | None = None,
        **options: Unpack[OptionFields],
    ) -> None:
        super().__init__(self)
        for name, value in (("tenant", tenant), ("agent", agent)):
            if not value:
                raise InvalidRequest(f"{name}: it may not be empty", field=name)
            try:
                value.encode()
            except UnicodeEncodeError:
                raise InvalidRequest(
                    f"{name}: half of a surrogate pair is not text, got {value!r}", field=name
                ) from None
        inbox = inbox_prefix(tenant, agent)
        check_size("tenant and agent", len(inbox), INBOX_PREFIX_BYTES)
        try:
            self.connection = Connection(
                default_url() if url is None else url,
                inbox,
                f"hivemem {agent}",
                nats_options or {},
                connect_timeout_seconds=connect_timeout_seconds,
                retry_refused=retry_refused,
            )
        except ValueError as error:
            given_by = URL_VARIABLE if url is None else "url"
            raise InvalidRequest(f"{given_by}: {error}", field="url") from None
        self.tenant = tenant
        self.agent = agent
        self.options = CallOptions().replaced(options, arguments=inspect.signature(Hive).parameters)
        self.unseen_messages = UnseenMessages()
        self._subjects: dict[AnyOperation, str] = {}

    def with_options(self, **options: Unpack[OptionFields]) -> Self:
        """Return a copy of the client with other options, on the same connection."""
        hive = copy(self)
        hive.options = self.options.replaced(options)
        Services.__init__(hive, hive)
        return hive

    async def send(self, operation: Operation[..., Any, ReplyT], fields: dict[str, Any], /) -> ReplyT:
        """Carry out a typed method: validate the fields, send the request, read the reply."""
        return await self._request(operation, build_body(operation, fields))

    async def request(self, operation: str, body: Body) -> BaseModel:
        """Call an operation by its full name, such as `sessions.append`. Raises the operation's errors."""
        found = find_operation(operation)
        return cast("BaseModel", await self._request(found, build_body(found, body)))

    async def _request(self, operation: Operation[..., Any, ReplyT], body: BaseModel) -> ReplyT:
        subject = self._subjects.get(operation)
        if subject is None:
            subject = request_subject(self.tenant, self.agent, operation.service, operation.name)
            self._subjects[operation] = subject
        options = patient_options(self.options, operation, body)
        headers: dict[str, str] | None = None
        message_id = ""
        if operation.writes:
            headers = write_headers(MESSAGE_ID, options)
            message_id = headers[MESSAGE_ID]
        elif options.traceparent:
            headers = {"traceparent": options.traceparent}
        _, payload = await encode_body(self, operation, body, message_id, requested=True)
        message = await ask(self.connection, subject, payload, headers, options, operation.full_name)
        try:
            reply = operation.reply.model_validate_json(message.data)
        except pydantic.ValidationError as error:
            detail = f"{operation.full_name}: the reply is not of a version that this client knows: {error}"
            raise Internal(detail) from error
        if options.large_values and IN_A_REPLY in message.data and operation in READS:
            return await resolved(self, reply, dangling=True)
        return reply

    @overload
    async def publish(
        self, command: Command[Fields, Any], /, *args: Fields.args, **fields: Fields.kwargs
    ) -> Receipt: ...
    @overload
    async def publish(
        self, command: str, body: Body, /, *, route: str | None = None, message_id: str | None = None
    ) -> Receipt: ...
    async def publish(self, command: Any, /, *args: Any, **fields: Any) -> Receipt:
        """Publish a write as a durable command, and wait until the bus has it on disk; a worker carries it out later.

        `await hive.publish(hive.sessions.append, session_id=…, event=…)`, or by name and body: `await
        hive.publish("sessions.append", {…})`. Commands of one route (the session) are carried out in the order in which
        they were published. Raises `InvalidRequest`, `TooLarge`, `Overloaded` if the bus stayed full, and
        `Unavailable`. Then the command may still arrive, so repeat it with the same message id.
        """
        prepared = await prepare(self, command, args, fields)
        return await publish_prepared(self.connection, prepared, self.options)

    def pipeline(self, max_pending: int = PIPELINE_PENDING) -> Pipeline:
        """Publish many commands with up to `max_pending` not yet acknowledged; `publish` waits while it is full.

        Waiting commands are sent together: sixteen or more as one atomic batch, which the bus stores whole or not at
        all.
        """
        if self.options.message_id is not None:
            raise InvalidRequest("message_id: each command of a pipeline has its own", field="message_id")
        return Pipeline(self, max_pending)

    @suggesting
    def changes(
        self,
        prefix: str | None = None,
        *,
        since: str | datetime = "now",
        on_gap: Literal["raise", "skip"] = "raise",
    ) -> Feed:
        """Follow the changes of the tenant, or those at and below a prefix, as they are committed, without an end.

        `prefix` is in wire tokens: `"event.s1"`, or `hivemem.prefix("event", "any id")`; or it is a whole subject.
        `since` is `"now"`, `"start"`, a time, or the `cursor` of a change, after which it continues. `"now"` is the
        moment at which the feed opens: with `async with hive.changes() as feed`, or at the first step of a bare
        `async for`. The type of a change's `value` follows from its `entity` and `operation`. After a gap the feed
        raises `FeedTruncated`, `FeedRecreated` or `UnreadableChange`; with `on_gap="skip"` it logs a warning and
        continues. Raises `InvalidRequest` for a prefix that no change can have.
        """
        return Feed(self.connection, self.tenant, prefix, since, on_gap, self.options)

    @suggesting
    async def recall(
        self,
        query: str,
        *,
        namespace_prefix: str | None = None,
        memory_type: MemoryType | None = None,
        filter: RecallFilter | None = None,
        limit: int = 10,
        weights: Weights | None = None,
        rerank: bool | None = None,
        max_tokens: int | None = None,
        min_version: int | None = None,
        wait_ms: int | None = None,
        explain: bool = False,
        user_id: str | None = None,
        app_name: str | None = None,
        project_id: str | None = None,
        session_ids: Sequence[str] | None = None,
        kinds: Sequence[ItemKind] | None = None,
        context: int = 0,
        cursor: str | None = None,
    ) -> RecallAnswer:
        """Find memories and events by meaning and by words: the best `items` first, each with its scores.

        `user_id`, `app_name`, `project_id` and `session_ids` find events of these sessions only. `context` adds at
        most this many events before and after each event.

        With `rerank`, the hive's reranker orders the best of them; a hive without one raises `InvalidRequest`.
        `max_tokens` limits the size of the values. The index is a moment behind: `wait_ms` waits at most this long
        until all earlier acknowledged writes are indexed, `min_version` until a memory is indexed at that version. If
        the answer is incomplete, `degraded` says why. `cursor` continues after the answer that had it.
        With `explain`, each item names the words that `matched`.
        """
        given = {
            "query": query,
            "namespace_prefix": namespace_prefix,
            "memory_type": memory_type,
            "filter": filter,
            "limit": limit,
            "weights": weights,
            "rerank": rerank,
            "max_tokens": max_tokens,
            "min_version": min_version,
            "wait_ms": wait_ms,
            "explain": explain or None,
            "user_id": user_id,
            "app_name": app_name,
            "project_id": project_id,
            "session_ids": None if session_ids is None else list(session_ids),
            "kinds": None if kinds is None else list(kinds),
            "context": context or None,
            "cursor": cursor,
        }
        return await self.send(RECALL, {name: value for name, value in given.items() if value is not None})

    @suggesting
    def lease(
        self, namespace: str, key: str | None = None, *, ttl_seconds: float = 30.0, wait_seconds: float = 60.0
    ) -> Lease:
        """Hold the lease on a namespace, or on one of its keys, while a block runs.

        `async with hive.lease("project:rome", wait_seconds=10) as lease:` waits in the queue for at most this long,
        renews the lease automatically and releases it at the end. Pass `lease.claim` to writes that must not happen
        without the lease. Raises `LeaseHeld` if it is not granted in time. After a crash the lease ends within
        `ttl_seconds`.
        """
        return Lease(self, namespace, key, ttl_seconds=ttl_seconds, wait_seconds=wait_seconds)

    def export(self, prefix: str, *, as_of: datetime | None = None) -> AsyncIterator[str]:
        """Yield the memories at and below a prefix as JSON lines: a header, and then a line for each memory.

        All lines are as of one moment, now by default, whatever is written meanwhile; they are read a page at a time.
        """
        return export_lines(self, prefix, as_of)

    @suggesting
    async def export_to(
        self,
        target: FilePath | IO[bytes],
        prefix: str,
        *,
        as_of: datetime | None = None,
        progress: Callable[[Progress], None] | None = None,
    ) -> Exported:
        """Write an `export` into a file: an open binary file, or a path, where the file appears when it is complete.

        `progress` is called from time to time. Raises `OSError` if the file cannot be written.
        """
        return await export_to(self, target, prefix, as_of, progress)

    @suggesting
    async def import_from(
        self,
        source: FilePath | IO[bytes] | AsyncIterable[str],
        *,
        existing: Existing = "update",
        after_line: int = 0,
        progress: Callable[[Progress], None] | None = None,
    ) -> Imported:
        """Import the lines of an export: of a file, or of another fleet's `export`.

        Memories with the same content stay as they are, so an import can be repeated. Memories with other content are
        updated, or kept with `existing="keep"`. A refused line is counted and reported, and the others are imported. If
        the fleet becomes unreachable, the error's context has `through_line`: pass it as `after_line` to resume. Raises
        `InvalidRequest` if the input is not an export, and `OSError` if the file cannot be read.
        """
        return await import_from(self, source, existing, after_line, progress)

    async def open(self, url: str) -> OpenArtifact:
        """Look up the file of a `hive://` URL, such as the `url` of an artifact; its bytes are read on demand. Raises
        `NotFound`, `InvalidRequest` and, for a URL of another tenant, `Forbidden`."""
        return await self.artifacts.open(url)

    @property
    def workspaces(self) -> Workspaces:
        """Folders as a whole: snapshots, restores and differences."""
        return Workspaces(self)

    @property
    def dead(self) -> DeadLetters:
        """The dead letters of the tenant."""
        return DeadLetters(self.connection, self.tenant, self.options)

    async def close(self) -> None:
        """Close the connection, for all copies of this client."""
        await self.connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class Connecting:
    """The result of `connect`: await it for a client, or enter it with `async with`, which also closes the client."""

    def __init__(self, hive: Hive) -> None:
        self._hive = hive

    async def _open(self) -> Hive:
        await self._hive.connection.open()
        return self._hive

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(f"{name}: await the client first, `hive = await hivemem.connect(…)`")

    def __await__(self) -> Generator[Any, None, Hive]:
        return self._open().__await__()

    async def __aenter__(self) -> Hive:
        return await self._open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._hive.close()


def connect(
    url: str | None = None,
    *,
    tenant: str = DEFAULT_TENANT,
    agent: str = DEFAULT_AGENT,
    connect_timeout_seconds: float = 5.0,
    retry_refused: bool = True,
    nats_options: Mapping[str, Any] | None = None,
    **options: Unpack[OptionFields],
) -> Connecting:
    """Connect to the fleet now: `hive = await connect(…)`, or `async with connect(…) as hive`.

    Takes the arguments of `Hive`, which connects at its first use. Raises `Unavailable` if no server answers in
    time, `Forbidden` if it refuses the credentials, `InvalidRequest` if `url` is malformed, and `TooLarge` if the names
    are too long.
    """
    return Connecting(
        Hive(
            url,
            tenant=tenant,
            agent=agent,
            connect_timeout_seconds=connect_timeout_seconds,
            retry_refused=retry_refused,
            nats_options=nats_options,
            **options,
        )
    )
