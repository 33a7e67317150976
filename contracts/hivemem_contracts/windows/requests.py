"""The request bodies of the windows service."""

from typing import Annotated

from pydantic import ConfigDict, Field

from hivemem_contracts.field_rules import combination, refuses
from hivemem_contracts.fields import Cursor, ExpectedVersion, Limit, Version
from hivemem_contracts.identifiers import Id
from hivemem_contracts.json_values import FromPython, Json
from hivemem_contracts.limits import BATCH_ITEMS, LIST_DEFAULT, WINDOW_CONTEXT_BYTES, WINDOW_MESSAGES
from hivemem_contracts.memory.models import LeaseClaim
from hivemem_contracts.model import RequestBody
from hivemem_contracts.sizes import MaxBytes
from hivemem_contracts.windows.models import FlushStrategy, Mode, NewMessage, ResourceId, Share, WindowResource

Context = Annotated[dict[str, Json], FromPython(), MaxBytes(WINDOW_CONTEXT_BYTES)]


class PutResource(RequestBody):
    resource: WindowResource
    expect_version: ExpectedVersion | None = None


class GetResource(RequestBody):
    id: ResourceId
    version: Version | None = Field(default=None, description="The newest one if left out.")


class ListResources(RequestBody):
    limit: Limit = LIST_DEFAULT
    cursor: Cursor | None = None


class DeleteResource(RequestBody):
    id: ResourceId


class NamedWindow(RequestBody):
    """Names a window by its key, or by the variables of its resource's key template."""

    model_config = ConfigDict(json_schema_extra=refuses(combination(given=("key", "context"))))

    resource: ResourceId
    key: Id | None = None
    context: Context | None = Field(
        default=None, description="The variables of the key template. Not together with `key`."
    )
    mode: Mode = Field(default="read-write", description="`read-only`: a write is refused with `Forbidden`.")


class WindowWrite(NamedWindow):
    """A write to a window."""

    lease: LeaseClaim | None = Field(
        default=None,
        description="The lease under which it is written. A claim with an earlier token of this lease is refused from "
        "then on.",
    )


class AppendMessage(WindowWrite):
    message: NewMessage
    message_id: Id | None = Field(
        default=None, description="The same id again appends nothing and gets the first answer."
    )


class AppendMessages(WindowWrite):
    messages: Annotated[list[NewMessage], Field(min_length=1, max_length=BATCH_ITEMS)]


class WriteWindow(WindowWrite):
    messages: Annotated[list[NewMessage], Field(max_length=BATCH_ITEMS)]
    expect_version: ExpectedVersion | None = None


class ReadWindow(NamedWindow):
    limit: Annotated[int, Field(ge=1, le=WINDOW_MESSAGES)] | None = Field(
        default=None, description="Only the newest messages; a tool call and its results stay together."
    )
    max_tokens: Annotated[int, Field(ge=1, le=2**53)] | None = Field(
        default=None, description="Messages of the system first, then the newest ones, up to that many tokens."
    )
    shares: Annotated[list[Share], Field(min_length=1, max_length=3)] | None = None


class DeleteMessage(WindowWrite):
    message_id: Id


class ClearWindow(WindowWrite):
    pass


class FlushWindow(WindowWrite):
    strategy: FlushStrategy | None = Field(default=None, description="That of the resource, else `fifo`.")


class ReadOriginals(NamedWindow):
    limit: Limit = LIST_DEFAULT
    cursor: Cursor | None = None


class InspectWindow(NamedWindow):
    pass


class ListWindows(RequestBody):
    resource: ResourceId | None = None
    prefix: Id | None = Field(default=None, description="The first segments of a key, which `:` separates.")
    limit: Limit = LIST_DEFAULT
    cursor: Cursor | None = None
