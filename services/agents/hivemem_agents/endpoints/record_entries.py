"""Pages of record entries, in the order in which they were recorded."""

from collections.abc import AsyncIterator, Mapping
from typing import Final, NamedTuple

from hivemem_agents.entities.records import RECORD, RecordEntry
from hivemem_runtime.ledger.entity import Scalar
from hivemem_runtime.ledger.port import Ledger

AT_ONCE: Final = 200


class Place(NamedTuple):
    """A place in a list of entries: right after one of them."""

    at: int = 0
    key: str = ""


START: Final = Place()


def place_behind(entry: RecordEntry) -> Place:
    return Place(entry.at, entry.key)


async def entries(
    ledger: Ledger,
    tenant: str,
    agent_id: str,
    *,
    kind: str | None = None,
    number: int | None = None,
    after: Place = START,
    since: int = 0,
    until: int | None = None,
    at_once: int = AT_ONCE,
) -> AsyncIterator[list[RecordEntry]]:
    """Yield pages of the entries after a place that were recorded within a time."""
    index, equals = _index(agent_id, kind, number)
    cursor: str | None = None
    low = max(after.at, since)
    while True:
        page = await ledger.find(
            RECORD, tenant, index, equals=equals, low=low, high=until, cursor=cursor, limit=at_once
        )
        values = [head.value for head in page.items if head.value is not None]
        yield [
            entry
            for entry in values
            # Entries of one moment are in the order of their ids, which end with their keys.
            if (entry.at, entry.key.encode()) > (after.at, after.key.encode()) and (kind is None or entry.kind == kind)
        ]
        cursor = page.cursor
        if cursor is None:
            return


def _index(agent_id: str, kind: str | None, number: int | None) -> tuple[str, Mapping[str, Scalar]]:
    if number is not None:
        return "agent_cycle", {"agent_id": agent_id, "number": number}
    if kind is not None:
        return "agent_kind", {"agent_id": agent_id, "kind": kind}
    return "agent", {"agent_id": agent_id}
