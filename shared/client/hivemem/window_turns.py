"""One turn of an agent in a window: read for a model, and append what is said without waiting for a worker."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypedDict, overload

import pydantic

from hivemem.provider_replies import Answer, ToolCall, ToolResult, read_answer, read_result
from hivemem.window_shapes import (
    AnthropicPrompt,
    GeminiPrompt,
    anthropic_messages,
    gemini_contents,
    openai_messages,
)
from hivemem_contracts.errors import HiveError, InvalidRequest, NotFound
from hivemem_contracts.identifiers import new_id
from hivemem_contracts.json_values import plain_json
from hivemem_contracts.model import invalid_request
from hivemem_contracts.vectors.models import Recalled
from hivemem_contracts.windows.models import WindowMessage
from hivemem_contracts.windows.replies import WindowRead

if TYPE_CHECKING:
    from hivemem.window import Window

log = logging.getLogger("hivemem")

MessageLike = WindowMessage | Mapping[str, Any]
"""A message of a window, or its fields."""
Format = Literal["openai", "anthropic", "gemini"]
TURN: Final = "turn"
INTERRUPTED: Final = "interrupted"

_SHAPES: Final[dict[str, Callable[..., Any]]] = {
    "openai": openai_messages,
    "anthropic": anthropic_messages,
    "gemini": gemini_contents,
}


class RecallOptions(TypedDict, total=False):
    """The arguments of `hive.recall` with which a turn finds long-term memories."""

    namespace_prefix: str
    user_id: str
    app_name: str
    project_id: str
    limit: int
    max_tokens: int
    wait_ms: int


class WindowTurn:
    """A turn in a window. Made by `window.turn`; entering it reads the window.

    The user's and the assistant's messages are durable commands: they are sent in order in the background, and the end
    of the block waits until the bus has them on disk. Each has the id of its turn in its metadata, as `turn`. If the
    block raises, its messages stay, and an empty message follows whose metadata has the kind of the error, as
    `interrupted`; models do not get it.
    """

    def __init__(
        self, window: "Window", user: str | MessageLike | None, recall: RecallOptions | None, max_tokens: int | None
    ) -> None:
        self._window = window
        self._user = user
        self._recall = recall
        self._max_tokens = max_tokens
        self._said: list[WindowMessage] = []
        self._calls: list[ToolCall] = []
        self._waiting: list[tuple[str, WindowMessage]] = []
        self._sending: asyncio.Task[None] | None = None
        self._before: Sequence[WindowMessage] = ()
        self.id = new_id()
        self.read: WindowRead | None = None
        """The window as it was at the beginning; None if nothing was ever appended to it."""
        self.recalled: Sequence[Recalled] = ()
        """The memories that were found for the user's message."""

    async def __aenter__(self) -> Self:
        """Read the window, and recall memories. Raises the errors of `window.read`; a recall that fails for now is
        logged, and the turn goes on without memories."""
        try:
            self.read = await self._window.read(max_tokens=self._max_tokens)
        except NotFound as error:
            if "key" not in error.context:  # the resource is missing, and not the window alone
                raise
        read = () if self.read is None else self.read.messages
        self._before = self._window.unseen_after({message.message_id for message in read})
        if self._user is not None:
            message = self.user(self._user)
            if self._recall is not None and isinstance(message.content, str):
                await self._find_memories(message.content, self._recall)
        elif self._recall is not None:
            raise InvalidRequest("user: a turn recalls memories by the user's text, got none", field="user")
        return self

    async def _find_memories(self, query: str, options: RecallOptions) -> None:
        try:
            self.recalled = (await self._window.hive.recall(query, **options)).items
        except HiveError as error:
            if not error.retryable:
                raise
            log.warning("a turn goes on without memories: %s", error)

    @overload
    def messages(self, *, format: Literal["openai"] = "openai") -> list[dict[str, Any]]: ...
    @overload
    def messages(self, *, format: Literal["anthropic"]) -> AnthropicPrompt: ...
    @overload
    def messages(self, *, format: Literal["gemini"]) -> GeminiPrompt: ...
    def messages(self, *, format: Format = "openai") -> Any:
        """Return the window with the messages of this turn, in the form that a provider takes.

        `openai`: the list of messages. `anthropic`: `system` and `messages`. `gemini`: `systemInstruction` and
        `contents`. Instructions come first, with the window's summary and the recalled memories.
        """
        shape = _SHAPES.get(format)
        if shape is None:
            raise InvalidRequest(f"format: one of {', '.join(_SHAPES)} is wanted, got {format!r}", field="format")
        read = [] if self.read is None else self.read.messages
        summary = None if self.read is None or self.read.summary is None else self.read.summary.text
        recalled = [item.text or str(item.value) for item in self.recalled]
        return shape([*read, *self._before, *self._said], summary=summary, recalled=recalled)

    def user(self, content: str | MessageLike, *, name: str | None = None) -> WindowMessage:
        """Append a message of the user: its text, or all of its fields."""
        if isinstance(content, str):
            return self.add({"role": "user", "content": content, **({} if name is None else {"name": name})})
        return self.add(content)

    def answer(self, reply: object) -> Answer:
        """Append the reply of a model, and return its text and its tool calls.

        Takes a text, or the reply of OpenAI's chat completions, Anthropic's Messages or Gemini's `generateContent`, as
        an object of the provider's library or as JSON. Raises `InvalidRequest` for anything else.
        """
        answer = read_answer(reply)
        message: dict[str, Any] = {"role": "assistant", "content": answer.text or None}
        if answer.tool_calls:
            message["tool_calls"] = [call.stored() for call in answer.tool_calls]
        if answer.text or answer.tool_calls:
            self.add(message)
            self._calls += answer.tool_calls
        return answer

    def tool_result(self, call: "str | ToolCall | object", content: object = None) -> WindowMessage:
        """Append the result of a tool call: with the call or its id, `turn.tool_result(call, {"temperature": 21})`, or
        alone in the form of a provider."""
        if isinstance(call, str | ToolCall):
            result = ToolResult(plain_json(content), call if isinstance(call, str) else call.id)
        else:
            result = read_result(call)
        call_id = result.call_id or self._id_of(result.name)
        self._calls = [open_call for open_call in self._calls if open_call.id != call_id]
        return self.add({"role": "tool", "content": result.content, "tool_call_id": call_id})

    def _id_of(self, name: str | None) -> str:
        """Return the id of the first open call of a tool."""
        found = next((call.id for call in self._calls if call.name == name), None)
        if found is None:
            raise InvalidRequest(f"result.name: no call of this turn to the tool {name!r} is open", field="result.name")
        return found

    def add(self, message: MessageLike) -> WindowMessage:
        """Append any message. Raises `InvalidRequest` at once if its fields are wrong."""
        self._window.check_writable("windows.append")
        try:
            checked = WindowMessage.model_validate(message)
        except pydantic.ValidationError as error:
            raise invalid_request(error, model=WindowMessage) from error
        checked = checked.model_copy(update={"metadata": {**(checked.metadata or {}), TURN: self.id}})
        self._said.append(checked)
        self._send(checked)
        return checked

    def _send(self, message: WindowMessage) -> None:
        self._waiting.append((new_id(), message))
        if self._sending is None or (self._sending.done() and self._sending.exception() is None):
            self._sending = asyncio.create_task(self._send_waiting())

    async def _send_waiting(self) -> None:
        """Send one after the other: after one that was not stored, none is, so that the order holds."""
        while self._waiting:
            await self._window.publish(*self._waiting.pop(0))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait until the bus has the messages. Raises what `hive.publish` raises, unless the block raised."""
        if kind is not None and self._said:
            metadata = {TURN: self.id, INTERRUPTED: kind.__name__}
            self._send(WindowMessage(role="assistant", metadata=metadata))
        if self._sending is None:
            return
        try:
            await self._sending
        except HiveError as failure:
            if kind is None:
                raise
            log.warning("messages of the interrupted turn %s were not stored: %s", self.id, failure)
