"""A window and its turns, for a synchronous client."""

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Literal, Self, overload

from hivemem.methods import suggesting
from hivemem.sync.blocking import Blocking, blocking, iterating, threaded
from hivemem.window import Window
from hivemem.window_shapes import AnthropicPrompt, GeminiPrompt
from hivemem.window_turns import Format, MessageLike, RecallOptions, WindowTurn
from hivemem_contracts.vectors.models import Recalled
from hivemem_contracts.windows.models import Mode
from hivemem_contracts.windows.replies import WindowRead


class BlockingWindowTurn(Blocking[WindowTurn]):
    """A turn in a window. Made by `window.turn`; entering it reads the window.

    The user's and the assistant's messages are durable commands: they are sent in order in the background, and the end
    of the block waits until the bus has them on disk. Each has the id of its turn in its metadata, as `turn`. If the
    block raises, its messages stay, and an empty message follows whose metadata has the kind of the error, as
    `interrupted`; models do not get it.
    """

    user = threaded(WindowTurn.user)
    answer = threaded(WindowTurn.answer)
    tool_result = threaded(WindowTurn.tool_result)
    add = threaded(WindowTurn.add)

    @property
    def id(self) -> str:
        return self.wrapped.id

    @property
    def read(self) -> WindowRead | None:
        """The window as it was at the beginning; None if nothing was ever appended to it."""
        return self.wrapped.read

    @property
    def recalled(self) -> Sequence[Recalled]:
        """The memories that were found for the user's message."""
        return self.wrapped.recalled

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
        messages: Any = self.wrapped.messages
        return messages(format=format)

    def __enter__(self) -> Self:
        """Read the window, and recall memories. Raises the errors of `window.read`; a recall that fails for now is
        logged, and the turn goes on without memories."""
        self.thread.run(self.wrapped.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait until the bus has the messages. Raises what `hive.publish` raises, unless the block raised."""
        self.thread.run(self.wrapped.__aexit__(kind, error, trace))


class BlockingWindow(Blocking[Window]):
    """A window. Made by `hive.window`, which sends nothing; each method is a request.

    In the mode `read-only`, methods that write raise `Forbidden`, and send nothing.
    """

    append = blocking(Window.append)
    append_many = blocking(Window.append_many)
    read = blocking(Window.read)
    write = blocking(Window.write)
    delete = blocking(Window.delete)
    clear = blocking(Window.clear)
    flush = blocking(Window.flush)
    originals = iterating(Window.originals)
    health = blocking(Window.health)
    stats = blocking(Window.stats)

    @property
    def resource(self) -> str:
        return self.wrapped.resource

    @property
    def mode(self) -> Mode:
        return self.wrapped.mode

    @suggesting
    def turn(
        self,
        user: str | MessageLike | None = None,
        *,
        recall: RecallOptions | None = None,
        max_tokens: int | None = None,
    ) -> BlockingWindowTurn:
        """Take a turn with a model while a block runs.

        `with window.turn("Where is my order?") as turn:` reads the window and appends the user's message;
        `turn.messages(format="anthropic")` is for the model, and `turn.answer(reply)` appends its reply. `recall` finds
        memories for the user's text, such as `{"namespace_prefix": "user:u1", "limit": 5}`. `max_tokens` limits what is
        read of the window.
        """
        return BlockingWindowTurn(self.wrapped.turn(user, recall=recall, max_tokens=max_tokens), self.thread)
