"""When the index has let go of what was erased."""

from dataclasses import replace

from hivemem_runtime.ledger.port import Append, Decision, Heads
from hivemem_vectors.decisions.points import PointName
from hivemem_vectors.decisions.sweeping import is_done_with
from hivemem_vectors.entities.items import Item, is_event
from hivemem_vectors.entities.removals import REMOVAL

_SESSION = "session:"


def confirmed(heads: Heads, receipt: str, removed: int) -> Decision:
    """Unless more was removed since it was told. What is confirmed is kept: an item that comes late counts on."""
    head = heads(REMOVAL, receipt)
    if head is None or head.value is None or head.value.confirmed or head.value.removed != removed:
        return []
    return [Append(REMOVAL, receipt, replace(head.value, confirmed=True))]


def namespaces_of(namespace: str) -> list[str]:
    """What a receipt of a namespace may mean: where a session was deleted, its temporary memories go along."""
    session_id = namespace.removeprefix(_SESSION)
    if namespace.startswith(_SESSION) and ":" not in session_id:
        return [namespace, f"temp:{session_id}"]
    return [namespace]


def is_remnant(name: PointName, item: Item | None) -> bool:
    """Whether a point is of a memory that is erased, or of an older version of one that was written anew since. Events
    are not what a receipt means."""
    if is_event(name.place) or (item is not None and item.indexed == name.version):
        return False
    return is_done_with(name.place, item, name.version)
