"""What an operation of many parts answered, kept for as long as its request may come again."""

from dataclasses import dataclass
from typing import Any, Final

from hivemem_runtime.ledger.entity import Index, record_entity


@dataclass(frozen=True, slots=True)
class Answer:
    """Head and record alike; its id is the request's."""

    reply: dict[str, Any]
    at: int


ANSWER: Final = record_entity(
    "answer",
    Answer,
    indexed=lambda head: {"at": head.at},
    indexes=(Index("age", (), "at"),),
)
