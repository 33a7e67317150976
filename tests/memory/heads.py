"""A store of heads alone, for the decisions about memories."""

from typing import Any

from hivemem_contracts.memory.requests import DeleteMemory, PatchMemory, PutMemory, RestoreMemory
from hivemem_memory.decisions.erasures import ErasureOrder, begin_erasure
from hivemem_memory.decisions.restores import restore_memory
from hivemem_memory.decisions.writes import delete_memory, patch_memory, put_memory
from hivemem_memory.entities.memories import MEMORY, MemoryHead, MemoryRecord
from hivemem_runtime.ledger.places import place_of
from hivemem_runtime.ledger.port import Append, Head, Record
from hivemem_testing import heads

NAMESPACE = "user:alice"


class DictHeads(heads.DictHeads):
    """Applies the appends of decisions about memories at once, at the next tick of the clock."""

    @property
    def now(self) -> int:
        return self.at + 1

    def head(self, key: str = "k") -> Head[MemoryHead] | None:
        return self(MEMORY, place_of(NAMESPACE, key))

    def memory(self, key: str = "k") -> MemoryHead:
        head = self.head(key)
        assert head is not None
        assert head.value is not None
        return head.value

    def version(self, version: int, key: str = "k") -> Record[MemoryRecord] | None:
        """Return a version as the ledger would answer it."""
        records = self.records.get(("memory", place_of(NAMESPACE, key)), [])
        return next((Record(stamp, record) for stamp, record in records if stamp.version == version), None)

    def put(
        self,
        key: str = "k",
        value: Any = None,
        /,
        *,
        agent: str = "bot",
        published_at: int | None = None,
        **fields: Any,
    ) -> MemoryRecord:
        command = PutMemory(namespace=NAMESPACE, key=key, value=value, **fields)
        return self._kept(key, put_memory(self, self.head(key), command, agent, published_at, self.now), agent)

    def patch(self, key: str, patch: Any, /, *, agent: str = "bot", **fields: Any) -> MemoryRecord:
        command = PatchMemory(namespace=NAMESPACE, key=key, patch=patch, **fields)
        return self._kept(key, patch_memory(self, self.head(key), command, None, self.now), agent)

    def delete(self, key: str = "k", /, *, agent: str = "bot", **fields: Any) -> MemoryRecord:
        command = DeleteMemory(namespace=NAMESPACE, key=key, **fields)
        return self._kept(key, delete_memory(self, self.head(key), command, None, self.now), agent)

    def restore(self, key: str = "k", /, *, agent: str = "bot", **fields: Any) -> MemoryRecord:
        command = RestoreMemory(namespace=NAMESPACE, key=key, **fields)
        wanted = None if command.version is None else self.version(command.version, key)
        return self._kept(key, restore_memory(self, self.head(key), command, wanted, None, self.now), agent)

    def forget(self, key: str = "k") -> None:
        """Remove a key from this store without a trace."""
        self.erase(MEMORY, place_of(NAMESPACE, key))
        self.records.pop(("memory", place_of(NAMESPACE, key)), None)

    def fence(self, key: str | None = "k", at: int | None = None) -> None:
        """Append the fence of an order to erase a memory, or the whole namespace."""
        order = ErasureOrder((NAMESPACE,), key, "bot", f"e{self.at}", at)
        self.apply(begin_erasure(self, f"receipt-{self.at}", order, self.now))

    def _kept(self, key: str, record: MemoryRecord, agent: str) -> MemoryRecord:
        self.apply([Append(MEMORY, place_of(NAMESPACE, key), record)], agent)
        return record
