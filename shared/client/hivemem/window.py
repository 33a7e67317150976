"""A window as an object: the operations of windows with its resource and its key or context filled in."""

import json
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hivemem.methods import suggesting
from hivemem.publishing import Receipt
from hivemem.window_turns import MessageLike, RecallOptions, WindowTurn
from hivemem_contracts.error_values import shown
from hivemem_contracts.errors import Forbidden, InvalidRequest
from hivemem_contracts.json_values import plain_json
from hivemem_contracts.memory.models import LeaseClaim
from hivemem_contracts.operations import Operation, ReplyT
from hivemem_contracts.windows import operations
from hivemem_contracts.windows.models import FlushStrategy, Mode, Share, StoredMessage, WindowMessage
from hivemem_contracts.windows.replies import (
    MessageAppended,
    MessageDeleted,
    MessagesAppended,
    WindowCleared,
    WindowFlushed,
    WindowHealth,
    WindowRead,
    WindowStats,
)

if TYPE_CHECKING:
    from hivemem.hive import Hive


class Window:
    """A window. Made by `hive.window`, which sends nothing; each method is a request.

    In the mode `read-only`, methods that write raise `Forbidden`, and send nothing; the worker would refuse them, too.
    """

    def __init__(
        self, hive: "Hive", resource: str, key: str | None, context: Mapping[str, Any], mode: Mode = "read-write"
    ) -> None:
        if key is not None and context:
            raise InvalidRequest(
                f"key: a window is named by its key or by variables, got {shown(key)} and {shown(sorted(context))}",
                field="key",
            )
        if mode not in ("read-write", "read-only"):
            raise InvalidRequest(f"mode: read-write or read-only is wanted, got {shown(mode)}", field="mode")
        self.hive = hive
        self.resource = resource
        self.mode: Mode = mode
        self._place: dict[str, Any] = {"resource": resource}
        if key is not None:
            self._place["key"] = key
        elif context:
            self._place["context"] = plain_json(dict(context))
        self._name = json.dumps(self._place, sort_keys=True)

    @suggesting
    async def append(
        self, message: MessageLike, *, message_id: str | None = None, lease: LeaseClaim | None = None
    ) -> MessageAppended:
        """Append a message: `await window.append({"role": "user", "content": "Hello"})`.

        The same `message_id` again appends nothing and gets the first answer. Raises the errors of
        `hive.windows.append`.
        """
        return await self._send(operations.APPEND, message=message, message_id=message_id, lease=lease)

    @suggesting
    async def append_many(
        self, messages: Sequence[MessageLike], *, lease: LeaseClaim | None = None
    ) -> MessagesAppended:
        """Append several messages in one step. Raises the errors of `hive.windows.append_many`."""
        return await self._send(operations.APPEND_MANY, messages=list(messages), lease=lease)

    @suggesting
    async def read(
        self, *, limit: int | None = None, max_tokens: int | None = None, shares: Sequence[Share] | None = None
    ) -> WindowRead:
        """Read the messages for a model. Raises the errors of `hive.windows.read`."""
        given = None if shares is None else list(shares)
        return await self._send(operations.READ, limit=limit, max_tokens=max_tokens, shares=given)

    @suggesting
    async def write(
        self,
        messages: Sequence[MessageLike],
        *,
        expect_version: int | None = None,
        lease: LeaseClaim | None = None,
    ) -> MessagesAppended:
        """Replace the messages; the earlier ones stay readable as originals. Raises the errors of
        `hive.windows.write`."""
        return await self._send(operations.WRITE, messages=list(messages), expect_version=expect_version, lease=lease)

    async def delete(self, message_id: str, *, lease: LeaseClaim | None = None) -> MessageDeleted:
        """Delete a message for good. Raises the errors of `hive.windows.delete`."""
        return await self._send(operations.DELETE, message_id=message_id, lease=lease)

    async def clear(self, *, lease: LeaseClaim | None = None) -> WindowCleared:
        """Delete all messages, the summary and the originals. Raises the errors of `hive.windows.clear`."""
        return await self._send(operations.CLEAR, lease=lease)

    async def flush(self, strategy: FlushStrategy | None = None, *, lease: LeaseClaim | None = None) -> WindowFlushed:
        """Flush the window now. Raises the errors of `hive.windows.flush`."""
        return await self._send(operations.FLUSH, strategy=strategy, lease=lease)

    async def originals(self) -> AsyncIterator[StoredMessage]:
        """Yield the messages that were flushed, evicted or replaced, in order; they are read a page at a time."""
        cursor: str | None = None
        while True:
            page = await self._send(operations.ORIGINALS, limit=200, cursor=cursor)
            for message in page.items:
                yield message
            cursor = page.cursor
            if cursor is None:
                return

    async def health(self) -> WindowHealth:
        """Check the window against its limits. Raises the errors of `hive.windows.health`."""
        return await self._send(operations.HEALTH)

    async def stats(self) -> WindowStats:
        """Read the counters of the window. Raises the errors of `hive.windows.stats`."""
        return await self._send(operations.STATS)

    @suggesting
    def turn(
        self,
        user: str | MessageLike | None = None,
        *,
        recall: RecallOptions | None = None,
        max_tokens: int | None = None,
    ) -> WindowTurn:
        """Take a turn with a model while a block runs.

        `async with window.turn("Where is my order?") as turn:` reads the window and appends the user's message;
        `turn.messages(format="anthropic")` is for the model, and `turn.answer(reply)` appends its reply. `recall` finds
        memories for the user's text, such as `{"namespace_prefix": "user:u1", "limit": 5}`. `max_tokens` limits what is
        read of the window.
        """
        return WindowTurn(self, user, recall, max_tokens)

    def check_writable(self, operation: str) -> None:
        """Raise `Forbidden` if this window is for reading only."""
        if self.mode == "read-only":
            raise Forbidden(f"mode: {operation}: the window of {self.resource!r} is read-only here", field="mode")

    async def publish(self, message_id: str, message: WindowMessage) -> Receipt:
        """Publish an append as a durable command."""
        body = {**self._place, "message": message, "message_id": message_id}
        receipt = await self.hive.publish(operations.APPEND.full_name, body, message_id=message_id)
        self.hive.unseen_messages.add(self._name, message_id, message)
        return receipt

    def unseen_after(self, read: Collection[str]) -> Sequence[WindowMessage]:
        """Return the messages that this client has published since, in the order in which it did."""
        return self.hive.unseen_messages.after(self._name, read)

    async def _send(self, operation: Operation[..., Any, ReplyT], **fields: Any) -> ReplyT:
        if operation.writes:
            self.check_writable(operation.full_name)
        given = {name: value for name, value in fields.items() if value is not None}
        return await self.hive.send(operation, {**self._place, "mode": self.mode, **given})
