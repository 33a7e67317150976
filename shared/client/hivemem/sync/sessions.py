"""Sessions, for a synchronous client."""

from typing import Any, TypeVar, overload

from pydantic import BaseModel

from hivemem.sessions import Sessions
from hivemem.sync.services import BlockingSessionsOperations

ModelT = TypeVar("ModelT", bound=BaseModel)


class BlockingSessions(BlockingSessionsOperations):
    """Sessions: events and state, statuses, state machines."""

    wrapped: Sessions

    @overload
    def resolve(self, shown: ModelT) -> ModelT: ...
    @overload
    def resolve(self, shown: Any) -> Any: ...
    def resolve(self, shown: Any) -> Any:
        """Return an event, a session, the value of a change or any JSON with its large values in place of references.

        Raises `NotFound` if such a value does not exist any more, and `TooLarge` for more than 64 MiB of them.
        """
        return self.thread.run(self.wrapped.resolve(shown))
