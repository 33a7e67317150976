"""The reaction to memories of records that are deleted, erased or restored."""

from collections.abc import Sequence
from typing import Final, get_args

from hivemem_agents.endpoints.record_memories import agent_of
from hivemem_agents.entities.records import RECORD, RecordEntry
from hivemem_contracts.agents.models import RECORDS_NAMESPACE, RecordKind
from hivemem_contracts.changes import Change
from hivemem_contracts.identifiers import microseconds_from_time
from hivemem_contracts.memory.models import Memory
from hivemem_runtime.bus.reactions.runner import Reaction, ReceivedChange
from hivemem_runtime.ledger.places import place_of
from hivemem_runtime.ledger.port import Append, Decision, Heads, Ledger, system_write, value_of

KINDS: Final = get_args(RecordKind)
RECORD_MEMORIES: Final = f"hive.chg.*.memory.{RECORDS_NAMESPACE.replace(':', '.')}.>"


def reactions(ledger: Ledger) -> tuple[Reaction, ...]:
    async def follow(changes: Sequence[ReceivedChange]) -> None:
        for received in changes:
            agent_id = agent_of(received.change.namespace)
            if agent_id is not None:
                await _follow(ledger, agent_id, received.change)

    return (Reaction("records", (RECORD_MEMORIES,), follow),)


async def _follow(ledger: Ledger, agent_id: str, change: Change) -> None:
    assert change.key is not None, "a change of a memory has a key"
    if change.operation == "restored":
        await _note_again(ledger, agent_id, change.key, change)
    elif change.operation in ("deleted", "erased"):
        place = place_of(agent_id, change.key)
        await ledger.erase(RECORD, change.tenant, place, actor=change.actor, cause=change.cause)


async def _note_again(ledger: Ledger, agent_id: str, key: str, change: Change) -> None:
    """Note a restored memory as a record, if it was one."""
    if change.value is None:
        return
    memory = Memory.model_validate(change.value)
    kind = memory.metadata.get("kind")
    if kind not in KINDS:
        return
    number = None if memory.source is None else memory.source.cycle
    entry = RecordEntry(
        agent_id,
        key,
        str(kind),
        number,
        memory.importance,
        memory.created_by,
        microseconds_from_time(memory.created_at),
    )
    id = place_of(agent_id, key)

    def decide(heads: Heads, now: int) -> Decision:
        return [] if value_of(heads(RECORD, id)) is not None else [Append(RECORD, id, entry)]

    await ledger.commit(system_write(change.tenant, RECORD, id, decide, actor=change.actor, cause=change.cause))
