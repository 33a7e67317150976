"""Sessions: `hive.sessions`, the operations of the service, and the values behind references."""

from typing import TYPE_CHECKING, Any, TypeVar, overload

from pydantic import BaseModel

from hivemem.large_values import resolved
from hivemem.services.sessions import SessionsOperations

if TYPE_CHECKING:
    from hivemem.hive import Hive

ModelT = TypeVar("ModelT", bound=BaseModel)


class Sessions(SessionsOperations):
    """Sessions: events and state, statuses, state machines.

    `get`, `events` and `state_get` return large values as they were written. Answers of writes, lists, the feed and
    recall have references in their place, which `resolve` replaces.
    """

    def __init__(self, hive: "Hive") -> None:
        super().__init__(hive)
        self._hive = hive

    @overload
    async def resolve(self, shown: ModelT) -> ModelT: ...
    @overload
    async def resolve(self, shown: Any) -> Any: ...
    async def resolve(self, shown: Any) -> Any:
        """Return an event, a session, the value of a change or any JSON with its large values in place of references.

        Raises `NotFound` if such a value does not exist any more, and `TooLarge` for more than 64 MiB of them.
        """
        return await resolved(self._hive, shown, dangling=False)
