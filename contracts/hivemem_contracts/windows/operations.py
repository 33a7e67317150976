"""Each operation of the windows service, declared once."""

from typing import Final

from hivemem_contracts.errors import IllegalTransition, LeaseHeld, NotFound, RevisionConflict
from hivemem_contracts.operations import Operation, ServiceContract
from hivemem_contracts.windows import replies, requests
from hivemem_contracts.windows.models import ResourceVersion

NAME: Final = "windows"
_WRITE_ERRORS: Final = (NotFound, IllegalTransition, LeaseHeld)

RESOURCE_PUT = Operation(
    NAME,
    "resource_put",
    requests.PutResource,
    replies.ResourceWritten,
    summary="Declare a window resource, or change its declaration.",
    writes=True,
    errors=(RevisionConflict,),
)
RESOURCE_GET = Operation(
    NAME,
    "resource_get",
    requests.GetResource,
    ResourceVersion,
    summary="Read a resource.",
    errors=(NotFound,),
)
RESOURCE_LIST = Operation(
    NAME,
    "resource_list",
    requests.ListResources,
    replies.ResourcePage,
    summary="List resources by id.",
)
RESOURCE_DELETE = Operation(
    NAME,
    "resource_delete",
    requests.DeleteResource,
    replies.ResourceDeleted,
    summary="Delete a resource: its windows take no more messages.",
    writes=True,
    route="id",
    errors=(NotFound,),
)
APPEND = Operation(
    NAME,
    "append",
    requests.AppendMessage,
    replies.MessageAppended,
    summary="Append a message to a window, which stays within its limits.",
    writes=True,
    route="resource",
    errors=_WRITE_ERRORS,
)
APPEND_MANY = Operation(
    NAME,
    "append_many",
    requests.AppendMessages,
    replies.MessagesAppended,
    summary="Append several messages in one step.",
    writes=True,
    route="resource",
    errors=_WRITE_ERRORS,
)
READ = Operation(
    NAME,
    "read",
    requests.ReadWindow,
    replies.WindowRead,
    summary="Read the messages of a window for a model.",
    errors=(NotFound,),
)
WRITE = Operation(
    NAME,
    "write",
    requests.WriteWindow,
    replies.MessagesAppended,
    summary="Replace the messages of a window; the earlier ones stay readable as originals.",
    writes=True,
    route="resource",
    errors=(*_WRITE_ERRORS, RevisionConflict),
)
DELETE = Operation(
    NAME,
    "delete",
    requests.DeleteMessage,
    replies.MessageDeleted,
    summary="Delete a message for good, whether it is in the window or has left it.",
    writes=True,
    route="resource",
    errors=_WRITE_ERRORS,
)
CLEAR = Operation(
    NAME,
    "clear",
    requests.ClearWindow,
    replies.WindowCleared,
    summary="Delete all messages of a window, its summary and its originals.",
    writes=True,
    route="resource",
    errors=_WRITE_ERRORS,
)
ORIGINALS = Operation(
    NAME,
    "originals",
    requests.ReadOriginals,
    replies.OriginalPage,
    summary="Read the messages that were flushed, evicted or replaced, in order.",
    errors=(NotFound,),
)
FLUSH = Operation(
    NAME,
    "flush",
    requests.FlushWindow,
    replies.WindowFlushed,
    summary="Flush a window now.",
    writes=True,
    route="resource",
    errors=_WRITE_ERRORS,
)
HEALTH = Operation(
    NAME,
    "health",
    requests.InspectWindow,
    replies.WindowHealth,
    summary="Check a window against its limits.",
    errors=(NotFound,),
)
STATS = Operation(
    NAME,
    "stats",
    requests.InspectWindow,
    replies.WindowStats,
    summary="Read the counters of a window.",
    errors=(NotFound,),
)
LIST = Operation(
    NAME,
    "windows",
    requests.ListWindows,
    replies.WindowPage,
    summary="List windows by key.",
)

WINDOWS: Final = ServiceContract(
    NAME,
    "Windows: conversations that agents share, within a budget of tokens.",
    (
        RESOURCE_PUT,
        RESOURCE_GET,
        RESOURCE_LIST,
        RESOURCE_DELETE,
        APPEND,
        APPEND_MANY,
        READ,
        WRITE,
        DELETE,
        CLEAR,
        ORIGINALS,
        FLUSH,
        HEALTH,
        STATS,
        LIST,
    ),
)
