"""Each operation of the sessions service, declared once."""

from typing import Final

from hivemem_contracts.errors import AlreadyExists, IllegalTransition, NotFound, RevisionConflict, TooLarge
from hivemem_contracts.operations import Operation, ServiceContract
from hivemem_contracts.sessions import replies, requests

NAME: Final = "sessions"

CREATE = Operation(
    NAME,
    "create",
    requests.CreateSession,
    replies.SessionWritten,
    summary="Create a session; fails if the id exists.",
    writes=True,
    route="session_id",
    errors=(AlreadyExists, NotFound, TooLarge),
)
GET = Operation(
    NAME,
    "get",
    requests.GetSession,
    replies.SessionView,
    summary="Read a session with its newest events, now or as it was at a revision or a moment.",
    errors=(NotFound,),
)
APPEND = Operation(
    NAME,
    "append",
    requests.AppendEvent,
    replies.Appended,
    summary="Append an event and merge its state delta in one atomic step.",
    writes=True,
    route="session_id",
    errors=(NotFound, RevisionConflict, IllegalTransition, TooLarge),
)
APPEND_BATCH = Operation(
    NAME,
    "append_batch",
    requests.AppendEvents,
    replies.AppendedBatch,
    summary="Append many events to many sessions, each with its own outcome.",
    writes=True,
)
EVENTS = Operation(
    NAME,
    "events",
    requests.ListEvents,
    replies.EventPage,
    summary="Page through a session's events, forwards or backwards, by type, author or time.",
    errors=(NotFound,),
)
STATE_GET = Operation(
    NAME,
    "state_get",
    requests.GetState,
    replies.StateView,
    summary="Read one state key, or all of them, of a session or of a shared scope.",
    errors=(NotFound,),
)
STATE_SET = Operation(
    NAME,
    "state_set",
    requests.SetState,
    replies.StateSet,
    summary="Set or delete one state key.",
    writes=True,
    route="session_id",
    errors=(NotFound, RevisionConflict, IllegalTransition, TooLarge),
)
UPDATE = Operation(
    NAME,
    "update",
    requests.UpdateSession,
    replies.SessionWritten,
    summary="Change the metadata or the project of a session, in any status.",
    writes=True,
    route="session_id",
    errors=(NotFound, RevisionConflict, TooLarge),
)
SET_STATUS = Operation(
    NAME,
    "set_status",
    requests.SetStatus,
    replies.SessionWritten,
    summary="Change the status of a session.",
    writes=True,
    route="session_id",
    errors=(NotFound, IllegalTransition),
)
TERMINATE = Operation(
    NAME,
    "terminate",
    requests.TerminateSession,
    replies.SessionWritten,
    summary="End a session and clear its `temp:` state.",
    writes=True,
    route="session_id",
    errors=(NotFound, IllegalTransition),
)
ARCHIVE = Operation(
    NAME,
    "archive",
    requests.ArchiveSession,
    replies.SessionWritten,
    summary="Move a terminated session's events to cold storage, where they stay readable.",
    writes=True,
    route="session_id",
    errors=(NotFound, IllegalTransition),
)
DELETE = Operation(
    NAME,
    "delete",
    requests.DeleteSession,
    replies.SessionDeleted,
    summary="Erase a session: its head, events, history and request ids.",
    writes=True,
    route="session_id",
    errors=(NotFound,),
)
FORK = Operation(
    NAME,
    "fork",
    requests.ForkSession,
    replies.SessionWritten,
    summary="Create a new session that shares history up to a revision.",
    writes=True,
    route="session_id",
    errors=(NotFound, AlreadyExists),
)
SHARED = Operation(
    NAME,
    "shared",
    requests.FindShared,
    replies.SharedSessions,
    summary="Find the sessions, living or deleted, whose events or large values living forks share.",
)
LIST = Operation(
    NAME,
    "list",
    requests.ListSessions,
    replies.SessionPage,
    summary="List sessions, newest or last updated first.",
)
APP_PUT = Operation(
    NAME,
    "app_put",
    requests.PutApp,
    replies.AppWritten,
    summary="Declare the state keys by which sessions of an app can be found.",
    writes=True,
    route="app_name",
)
APP_GET = Operation(
    NAME,
    "app_get",
    requests.GetApp,
    replies.AppView,
    summary="Read the state indexes of an app.",
)
MACHINE_PUT = Operation(
    NAME,
    "machine_put",
    requests.PutMachine,
    replies.MachineWritten,
    summary="Store a new version of a state machine.",
    writes=True,
    route="name",
    errors=(RevisionConflict, TooLarge),
)
MACHINE_GET = Operation(
    NAME,
    "machine_get",
    requests.GetMachine,
    replies.MachineView,
    summary="Read a state machine, its newest version or an older one.",
    errors=(NotFound,),
)

SESSIONS: Final = ServiceContract(
    NAME,
    "Sessions: events and state, statuses, state machines.",
    (
        CREATE,
        GET,
        APPEND,
        APPEND_BATCH,
        EVENTS,
        STATE_GET,
        STATE_SET,
        UPDATE,
        SET_STATUS,
        TERMINATE,
        ARCHIVE,
        DELETE,
        FORK,
        SHARED,
        LIST,
        APP_PUT,
        APP_GET,
        MACHINE_PUT,
        MACHINE_GET,
    ),
)
