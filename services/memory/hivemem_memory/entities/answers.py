"""Answers of batches and forks, kept as long as a retry may come."""

from dataclasses import dataclass
from typing import Any, Final

from hivemem_runtime.ledger.entity import Index, record_entity


@dataclass(frozen=True, slots=True)
class Answer:
    """The stored answer of a request. Head and record have the same shape; the id is the request's idempotency key."""

    reply: dict[str, Any]
    at: int


ANSWER: Final = record_entity(
    "answer",
    Answer,
    indexed=lambda head: {"at": head.at},
    indexes=(Index("age", (), "at"),),
)
