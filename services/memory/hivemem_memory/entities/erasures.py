"""An erasure: what was asked for, how far it got, and who confirmed it. Its receipt is its id."""

from dataclasses import dataclass, field
from typing import Any, Final

from hivemem_runtime.ledger.entity import Index, record_entity


@dataclass(frozen=True, slots=True)
class Erasure:
    """Head and record alike. `confirmed` holds one `{worker, removed, at}` for each worker.

    `more` are namespaces that go along with the first. All up to the place that was `reached` is counted already, and
    erased or about to be: whoever takes over erases what is left of it, and counts from there on.
    """

    namespace: str
    key: str | None
    requested_by: str
    requested_at: int
    cause: str
    status: str = "running"
    entries: int = 0
    versions: int = 0
    finished_at: int | None = None
    confirmed: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    more: list[str] = field(default_factory=list[str])
    reached: str | None = None


ERASURE: Final = record_entity(
    "erasure",
    Erasure,
    indexed=lambda head: {"running": head.status == "running", "requested_at": head.requested_at},
    indexes=(Index("running", (), "requested_at", only="running"),),
)
