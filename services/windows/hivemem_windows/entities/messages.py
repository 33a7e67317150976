"""Messages, in the window or out of it, and the outcomes of flushes that a request asked for."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from hivemem_runtime.ledger.entity import Index, Scalar, record_entity
from hivemem_runtime.ledger.places import place_of


@dataclass(frozen=True, slots=True)
class MessageRecord:
    """A message in its wire format; None once it is deleted. `unit` is the number of its unit."""

    window: str
    sequence: int
    unit: int
    message_id: str
    message: dict[str, Any] | None


def message_place(window: str, sequence: int) -> str:
    return place_of(window, str(sequence))


def _index_message(message: MessageRecord) -> Mapping[str, Scalar]:
    return {
        "window": message.window,
        "sequence": message.sequence,
        "result_of": None if message.unit == message.sequence else message.unit,
        "message_id": message.message_id,
        "there": message.message is not None,
    }


MESSAGE: Final = record_entity(
    "window_message",
    MessageRecord,
    indexed=_index_message,
    indexes=(
        Index("window", ("window",), "sequence"),
        Index("results", ("window", "result_of"), "sequence", only="there"),
        Index("message_id", ("window", "message_id"), "sequence", only="there"),
    ),
    history=False,
)


@dataclass(frozen=True, slots=True)
class FlushOutcome:
    """What became of a flush, in the wire format."""

    window: str
    outcome: dict[str, Any]


FLUSH: Final = record_entity(
    "window_flush",
    FlushOutcome,
    indexed=lambda flush: {"window": flush.window},
    indexes=(Index("window", ("window",), None),),
    history=False,
)


def flush_place(window: str, flush_id: str) -> str:
    return place_of(window, flush_id)
