"""The client of a fleet for programs without an event loop."""

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from datetime import datetime
from types import TracebackType
from typing import IO, Any, Literal, Self, Unpack, cast, overload

from hivemem.hive import Hive
from hivemem.importing import Existing, Imported
from hivemem.lines import FilePath
from hivemem.methods import suggesting
from hivemem.options import DEFAULT_AGENT, DEFAULT_TENANT, CallOptions, OptionFields
from hivemem.pipeline import PIPELINE_PENDING
from hivemem.publishing import Body, Receipt
from hivemem.sync.artifacts import BlockingOpenArtifact
from hivemem.sync.attributes import BlockingServices
from hivemem.sync.blocking import Blocking, BlockingCommand, asynchronous, blocking, iterating, wrapped_method
from hivemem.sync.dead import BlockingDeadLetters
from hivemem.sync.feed import BlockingFeed
from hivemem.sync.leases import BlockingLease
from hivemem.sync.loop_thread import LoopThread
from hivemem.sync.pipeline import BlockingPipeline
from hivemem.sync.window import BlockingWindow
from hivemem.sync.workflows import BlockingWorkflows
from hivemem.sync.workspaces import BlockingWorkspaces
from hivemem.transfer import Progress
from hivemem.window_uses import WindowConfig
from hivemem_contracts.operations import Fields
from hivemem_contracts.windows.models import Mode


class BlockingHive(BlockingServices, Blocking[Hive]):
    """One agent of one tenant. It connects at its first use; safe to use from many threads at once.

    It has the methods of `hivemem.Hive`, with the same arguments and errors; they return their results. The work is
    done in a thread that ends with `close`, or with the program.

    `url` is one NATS server or several, separated by commas; it may contain a user and a password. Without one, it is
    `HIVEMEM_URL` of the environment, or `nats://127.0.0.1:4222`. `nats_options` are passed to nats-py unchanged:
    `user_credentials`, `nkeys_seed`, `tls` and so on. The other arguments are the options of every call, see
    `CallOptions`. Raises `InvalidRequest` if `url` is malformed, and `TooLarge` if the names are too long. The first
    use raises `Unavailable` if no server answers within `connect_timeout_seconds`, and `Forbidden` if it refuses the
    credentials; then the next use tries again. With `retry_refused=False`, servers that refuse the connection and
    unknown host names are an error at once. Once connected, the client reconnects automatically, without a time limit.
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
        hive = Hive(
            url,
            tenant=tenant,
            agent=agent,
            connect_timeout_seconds=connect_timeout_seconds,
            retry_refused=retry_refused,
            nats_options=nats_options,
            **options,
        )
        self.wrapped, self.thread = hive, LoopThread(hive.connection.close)
        BlockingServices.__init__(self, hive, self.thread)

    @property
    def tenant(self) -> str:
        return self.wrapped.tenant

    @property
    def agent(self) -> str:
        return self.wrapped.agent

    @property
    def options(self) -> CallOptions:
        return self.wrapped.options

    def with_options(self, **options: Unpack[OptionFields]) -> Self:
        """Return a copy of the client with other options, on the same connection."""
        hive = copy(self)
        hive.wrapped = self.wrapped.with_options(**options)
        BlockingServices.__init__(hive, hive.wrapped, hive.thread)
        return hive

    request = blocking(Hive.request)

    @overload
    def publish(
        self, command: BlockingCommand[Fields, Any], /, *args: Fields.args, **fields: Fields.kwargs
    ) -> Receipt: ...
    @overload
    def publish(
        self, command: str, body: Body, /, *, route: str | None = None, message_id: str | None = None
    ) -> Receipt: ...
    def publish(self, command: Any, /, *args: Any, **fields: Any) -> Receipt:
        """Publish a write as a durable command, and wait until the bus has it on disk; a worker carries it out later.

        `hive.publish(hive.sessions.append, session_id=…, event=…)`, or by name and body:
        `hive.publish("sessions.append", {…})`. Commands of one route (the session) are carried out in the order in
        which they were published. Raises `InvalidRequest`, `TooLarge`, `Overloaded` if the bus stayed full, and
        `Unavailable`. Then the command may still arrive, so repeat it with the same message id.
        """
        publish: Any = self.wrapped.publish
        return cast("Receipt", self.thread.run(publish(wrapped_method(command), *args, **fields)))

    def pipeline(self, max_pending: int = PIPELINE_PENDING) -> BlockingPipeline:
        """Publish many commands with up to `max_pending` not yet acknowledged; `publish` waits while it is full.

        Waiting commands are sent together: sixteen or more as one atomic batch, which the bus stores whole or not at
        all.
        """
        return BlockingPipeline(self.wrapped.pipeline(max_pending), self.thread)

    @suggesting
    def changes(
        self,
        prefix: str | None = None,
        *,
        since: str | datetime = "now",
        on_gap: Literal["raise", "skip"] = "raise",
    ) -> BlockingFeed:
        """Follow the changes of the tenant, or those at and below a prefix, as they are committed, without an end.

        `prefix` is in wire tokens: `"event.s1"`, or `hivemem.prefix("event", "any id")`. `since` is `"now"`, `"start"`,
        a time, or the `cursor` of a change, after which it continues. `"now"` is the moment at which the feed opens:
        with `with hive.changes() as feed`, or at the first step of a bare `for`. After a gap the feed raises
        `FeedTruncated`, `FeedRecreated` or `UnreadableChange`; with `on_gap="skip"` it logs a warning and continues.
        """
        return BlockingFeed(self.wrapped.changes(prefix, since=since, on_gap=on_gap), self.thread)

    recall = blocking(Hive.recall)

    @suggesting
    def lease(
        self, namespace: str, key: str | None = None, *, ttl_seconds: float = 30.0, wait_seconds: float = 60.0
    ) -> BlockingLease:
        """Hold the lease on a namespace, or on one of its keys, while a block runs.

        `with hive.lease("project:rome", wait_seconds=10) as lease:` waits in the queue for at most this long, renews
        the lease automatically and releases it at the end. Pass `lease.claim` to writes that must not happen without
        the lease. Raises `LeaseHeld` if it is not granted in time. After a crash the lease ends within `ttl_seconds`.
        """
        lease = self.wrapped.lease(namespace, key, ttl_seconds=ttl_seconds, wait_seconds=wait_seconds)
        return BlockingLease(lease, self.thread)

    def window(
        self,
        resource: str,
        /,
        *,
        key: str | None = None,
        mode: Mode = "read-write",
        context: Mapping[str, Any] | None = None,
        **variables: Any,
    ) -> BlockingWindow:
        """Return a window of a resource, by the variables of its key template or by its key; sends nothing.

        `hive.window("customer-support", user_id="u1")`, or `key="user:u1"`. `context` takes variables that are
        named like an argument. In the mode `read-only`, methods that write raise `Forbidden`.
        """
        window = self.wrapped.window(resource, key=key, mode=mode, context=context, **variables)
        return BlockingWindow(window, self.thread)

    def windows_of(
        self, config: WindowConfig, /, *, context: Mapping[str, Any] | None = None, **variables: Any
    ) -> dict[str, BlockingWindow]:
        """Return the windows that an agent's configuration names, by name or alias; sends nothing.

        A configuration is the name of a resource, or `{"name": …, "key": …}`, or a list of these, each with a `mode`
        (`read-write` or `read-only`) and an `alias`. Windows without a key have that of the variables. Raises
        `InvalidRequest` by field.
        """
        found = self.wrapped.windows_of(config, context=context, **variables)
        return {name: BlockingWindow(window, self.thread) for name, window in found.items()}

    export = iterating(Hive.export)
    export_to = blocking(Hive.export_to)

    @suggesting
    def import_from(
        self,
        source: FilePath | IO[bytes] | Iterable[str],
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
        whole = isinstance(source, str) or not isinstance(source, Iterable) or hasattr(source, "read")
        lines = cast("IO[bytes]", source) if whole else asynchronous(cast("Iterable[str]", source))
        return self.thread.run(
            self.wrapped.import_from(lines, existing=existing, after_line=after_line, progress=progress)
        )

    def open(self, url: str) -> BlockingOpenArtifact:
        """Look up the file of a `hive://` URL, such as the `url` of an artifact; its bytes are read on demand. Raises
        `NotFound`, `InvalidRequest` and, for a URL of another tenant, `Forbidden`."""
        return self.artifacts.open(url)

    @property
    def workspaces(self) -> BlockingWorkspaces:
        """Folders as a whole: snapshots, restores and differences."""
        return BlockingWorkspaces(self.wrapped.workspaces, self.thread)

    @property
    def workflows(self) -> BlockingWorkflows:
        """Workflows and their runs."""
        return BlockingWorkflows(self.wrapped.workflows, self.thread)

    @property
    def dead(self) -> BlockingDeadLetters:
        """The dead letters of the tenant."""
        return BlockingDeadLetters(self.wrapped.dead, self.thread)

    def close(self) -> None:
        """Close the connection, for all copies of this client. Calls under way in other threads raise an error."""
        self.thread.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def connect(
    url: str | None = None,
    *,
    tenant: str = DEFAULT_TENANT,
    agent: str = DEFAULT_AGENT,
    connect_timeout_seconds: float = 5.0,
    retry_refused: bool = True,
    nats_options: Mapping[str, Any] | None = None,
    **options: Unpack[OptionFields],
) -> BlockingHive:
    """Connect to the fleet now: `hive = connect(…)`, or `with connect(…) as hive`.

    Takes the arguments of `Hive`, which connects at its first use. Raises `Unavailable` if no server answers in
    time, `Forbidden` if it refuses the credentials, `InvalidRequest` if `url` is malformed, and `TooLarge` if the names
    are too long.
    """
    hive = BlockingHive(
        url,
        tenant=tenant,
        agent=agent,
        connect_timeout_seconds=connect_timeout_seconds,
        retry_refused=retry_refused,
        nats_options=nats_options,
        **options,
    )
    try:
        hive.thread.run(hive.wrapped.connection.open())
    except BaseException:
        hive.close()
        raise
    return hive
