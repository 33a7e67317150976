"""What an operation of many parts answered, kept for as long as its request may come again."""

from dataclasses import dataclass
from typing import Any, Final

from hivemem_runtime.ledger.entity import Entity, Index


@dataclass(frozen=True, slots=True)
class Answer:
    """Head and record alike; its id is the request's."""

    reply: dict[str, Any]
    at: int


ANSWER: Final = Entity(
    name="answer",
    head=Answer,
    record=Answer,
    evolve=lambda head, record, stamp: record,
    announce=lambda record, stamp: (),
    indexed=lambda head: {"at": head.at},
    indexes=(Index("age", (), "at"),),
    snapshot_every=1,
)
