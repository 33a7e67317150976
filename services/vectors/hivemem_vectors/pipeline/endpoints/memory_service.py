"""What the memory service is asked: items as they are now, what the index ought to have, that an erasure is done."""

from collections.abc import Sequence
from typing import Any, Final

from hivemem_contracts.errors import NotFound
from hivemem_contracts.identifiers import derived_id, time_from_microseconds
from hivemem_contracts.limits import BATCH_ITEMS
from hivemem_contracts.memory import operations, requests
from hivemem_contracts.memory.models import MemoryKey
from hivemem_runtime.bus.asking import Asking

AGENT: Final = "hivemem"
"""In whose name the worker asks, where nobody asked it."""

WORKER: Final = "vectors"
"""Under which name it confirms."""

Name = tuple[str, str]
"""A namespace and a key."""


class Memories:
    """Raises what `Asking.ask` does: `Unavailable` while no memory worker answers."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking

    async def get_many(self, tenant: str, agent: str, names: Sequence[Name]) -> dict[Name, dict[str, Any]]:
        """The living ones among them, each as a memory travels."""
        found: dict[Name, dict[str, Any]] = {}
        left = list(names)
        while left:
            some, rest = await self.get_some(tenant, agent, left[:BATCH_ITEMS])
            found.update(some)
            left = rest + left[BATCH_ITEMS:]
        return found

    async def get_some(
        self, tenant: str, agent: str, names: Sequence[Name]
    ) -> tuple[dict[Name, dict[str, Any]], list[Name]]:
        """As many as one answer has room for, from the first one on; and the names of those behind them."""
        body = requests.GetMemories(keys=[MemoryKey(namespace=namespace, key=key) for namespace, key in names])
        answer = await self._asking.ask(tenant, agent, operations.GET_MANY, body)
        found = {(memory["namespace"], memory["key"]): memory for memory in answer["items"]}
        return found, [(name["namespace"], name["key"]) for name in answer["left"]]

    async def newest(self, tenant: str, agent: str, name: Name) -> dict[str, Any] | None:
        """One as it is now, if only as a deletion; None where nothing is known of it."""
        body = requests.GetMemory(namespace=name[0], key=name[1], include_deleted=True)
        try:
            return await self._asking.ask(tenant, agent, operations.GET, body)
        except NotFound:
            return None

    async def page(
        self, tenant: str, prefix: str, *, limit: int, cursor: str | None = None
    ) -> tuple[list[dict[str, Any]], str | None]:
        """A page of all memories below a prefix by namespace and key, deleted ones too."""
        body = requests.ListMemories(prefix=prefix, include_deleted=True, limit=limit, cursor=cursor)
        answer = await self._asking.ask(tenant, AGENT, operations.LIST, body)
        return answer["items"], answer["cursor"]

    async def written_since(self, tenant: str, prefix: str, moment: int, *, limit: int) -> list[dict[str, Any]]:
        """The newest of those below a prefix that were written after a moment, in microseconds since 1970; deleted ones
        too."""
        body = requests.ListMemories(
            prefix=prefix,
            include_deleted=True,
            updated_after=time_from_microseconds(moment),
            sort="-updated_at",
            limit=limit,
        )
        items: list[dict[str, Any]] = (await self._asking.ask(tenant, AGENT, operations.LIST, body))["items"]
        return items

    async def erasure(self, tenant: str, receipt: str) -> dict[str, Any] | None:
        """An erasure's receipt; None where there is none."""
        try:
            return await self._asking.ask(tenant, AGENT, operations.ERASURE, requests.ReadErasure(receipt=receipt))
        except NotFound:
            return None

    async def confirm_erasure(self, tenant: str, receipt: str, removed: int) -> None:
        body = requests.ConfirmErasure(receipt=receipt, worker=WORKER, removed=removed)
        message_id = derived_id(WORKER, receipt, str(removed))
        await self._asking.ask(tenant, AGENT, operations.ERASE_CONFIRM, body, message_id=message_id)
