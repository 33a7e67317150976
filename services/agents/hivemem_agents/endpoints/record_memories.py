"""The memories of records, which the memory service keeps."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from hivemem_agents.entities.records import RecordEntry
from hivemem_contracts.agents.models import RECORDS_NAMESPACE
from hivemem_contracts.errors import error_from_body
from hivemem_contracts.identifiers import derived_id, format_microseconds
from hivemem_contracts.limits import BATCH_ITEMS
from hivemem_contracts.memory import operations, requests
from hivemem_contracts.memory.models import MemoryKey, MemoryType, Source
from hivemem_contracts.subjects import Sender
from hivemem_runtime.bus.requests.outgoing import Asking

MEMORY_TYPES: Final[Mapping[str, MemoryType]] = {
    "observation": "episodic",
    "result": "episodic",
    "reflection": "semantic",
    "plan": "procedural",
}
DELETED_AT_ONCE: Final = 500
assert DELETED_AT_ONCE <= BATCH_ITEMS


def namespace_of(agent_id: str) -> str:
    return f"{RECORDS_NAMESPACE}:{agent_id}"


def agent_of(namespace: str) -> str | None:
    """Return the agent of a namespace of records; None for any other namespace."""
    parent, _, agent_id = namespace.rpartition(":")
    return agent_id if parent == RECORDS_NAMESPACE else None


def record_fields(entry: RecordEntry, memory: Mapping[str, Any]) -> dict[str, Any]:
    """Return the wire format of a record."""
    return {
        "agent_id": entry.agent_id,
        "kind": entry.kind,
        "number": entry.number,
        "namespace": memory["namespace"],
        "key": entry.key,
        "version": memory["version"],
        "content": memory["value"],
        "importance": memory["importance"],
        "metadata": memory["metadata"],
        "created_by": entry.by,
        "at": format_microseconds(entry.at),
    }


class RecordMemories:
    """The memory service, called over the bus in the name of the agent that asks."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking

    async def put(
        self, sender: Sender, entry: RecordEntry, content: Any, metadata: Mapping[str, Any], message_id: str
    ) -> dict[str, Any]:
        """Write the memory of a record, and return the answer."""
        cycle: dict[str, Any] = {} if entry.number is None else {"cycle": entry.number}
        body = requests.PutMemory(
            namespace=namespace_of(entry.agent_id),
            key=entry.key,
            value=content,
            memory_type=MEMORY_TYPES[entry.kind],
            metadata={**metadata, "kind": entry.kind},
            importance=entry.importance,
            source=Source(agent_id=entry.agent_id, **cycle),
        )
        # Under an id of its own: the caller may use its message id for a memory as well.
        own_id = derived_id("record", message_id)
        return await self._asking.ask(sender.tenant, sender.agent, operations.PUT, body, message_id=own_id)

    async def get_some(
        self, sender: Sender, agent_id: str, keys: Sequence[str]
    ) -> tuple[dict[str, dict[str, Any]], list[str]]:
        """Return the living memories of the first keys in their wire format, as many as fit into one answer, and the
        keys that are left."""
        if not keys:
            return {}, []
        namespace = namespace_of(agent_id)
        asked = [MemoryKey(namespace=namespace, key=key) for key in keys[:BATCH_ITEMS]]
        body = requests.GetMemories(keys=asked)
        answer = await self._asking.ask(sender.tenant, sender.agent, operations.GET_MANY, body)
        found = {memory["key"]: memory for memory in answer["items"]}
        return found, [*(name["key"] for name in answer["left"]), *keys[BATCH_ITEMS:]]

    async def delete(self, sender: Sender, agent_id: str, keys: Sequence[str], message_id: str) -> None:
        """Delete memories, where they still exist. Raises the first error of another kind."""
        namespace = namespace_of(agent_id)
        for start in range(0, len(keys), DELETED_AT_ONCE):
            some = keys[start : start + DELETED_AT_ONCE]
            body = requests.DeleteMemories(
                deletes=[requests.DeleteMemory(namespace=namespace, key=key) for key in some]
            )
            own_id = derived_id("prune", message_id, *some)
            answer = await self._asking.ask(
                sender.tenant, sender.agent, operations.DELETE_BATCH, body, message_id=own_id
            )
            for result in answer["results"]:
                error = None if result["error"] is None else error_from_body(result)
                if error is not None and error.name != "NotFound":
                    raise error
