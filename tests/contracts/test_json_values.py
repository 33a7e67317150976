"""Values of Python become JSON where there is one obvious way, and are refused by the name of their place elsewhere."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple
from uuid import UUID

import numpy
import pytest
from pydantic import BaseModel, ValidationError

from hivemem_contracts.errors import InvalidRequest
from hivemem_contracts.json_values import plain_json
from hivemem_contracts.memory.requests import PutMemory
from hivemem_contracts.model import invalid_request
from hivemem_contracts.sessions.models import NewEvent
from hivemem_contracts.sessions.requests import AppendEvent

MOMENT = datetime(2026, 1, 31, 9, 30, tzinfo=UTC)
RFC_3339 = "2026-01-31T09:30:00.000000Z"


class Colour(Enum):
    RED = "red"


class Point(NamedTuple):
    x: int
    y: object


@dataclass
class Seat:
    row: int
    side: object = None


@dataclass
class Taken:
    seat: object


class Trip(BaseModel):
    to: str
    at: datetime | None = None
    ticket: bytes = b""


def cycle() -> list[object]:
    found: list[object] = []
    found.append(found)
    return found


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ((1, (2, "x")), [1, [2, "x"]]),
        (Point(1, (2,)), [1, [2]]),
        (Colour.RED, "red"),
        ({Colour.RED: Colour.RED}, {"red": "red"}),
        (MappingProxyType({"a": (1,)}), {"a": [1]}),
        (Seat(12, Seat(1)), {"row": 12, "side": {"row": 1, "side": None}}),
        (Trip(to="Rome", at=MOMENT), {"to": "Rome", "at": "2026-01-31T09:30:00Z", "ticket": ""}),
        (MOMENT, RFC_3339),
        (MOMENT.date(), "2026-01-31"),
        (UUID(int=0), "00000000-0000-0000-0000-000000000000"),
        (numpy.int64(3), 3),
        (numpy.float32(1.5), 1.5),
        (numpy.array([[1, 2]]), [[1, 2]]),
    ],
)
def test_a_value_with_one_obvious_form_is_converted(value: object, expected: object) -> None:
    event = NewEvent(type="note", content={"deep": [value]})

    assert event.content == {"deep": [expected]}
    assert NewEvent.model_validate_json(event.model_dump_json()) == event


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (b"x", "bytes are not JSON: save them as an artifact"),
        ({1, 2}, "a set is not JSON: pass a list"),
        (Decimal("1.1"), "a Decimal is not JSON: pass a float, or text"),
        (timedelta(1), "timedelta is not JSON"),
        (Seat, "type is not JSON"),
        (numpy.datetime64("2026-01-31T09:30"), "datetime64 is not JSON"),
        (numpy.longdouble(1), "longdouble is not JSON"),
        (datetime(2026, 1, 31), "a time needs its offset from UTC: …"),  # noqa: DTZ001 - that is the point
        (float("nan"), "a number is finite, got nan"),
        (numpy.float64("-inf"), "a number is finite, got -inf"),
        ({1: "x"}, "a key of an object is text, got int 1"),
        (("\ud800",), "half of a surrogate pair is not text"),
    ],
    ids=repr,
)
def test_another_value_is_refused_with_its_place(value: object, problem: str) -> None:
    error = refused({"photo": value})

    place = "value.photo.0" if isinstance(value, tuple) else "value.photo"
    assert error.context["field"] == place
    assert error.detail.startswith(f"{place}: {problem.removesuffix('…')}")


def refused(value: object) -> InvalidRequest:
    with pytest.raises(ValidationError) as raised:
        PutMemory(namespace="user:alice", key="k", value=value)
    return invalid_request(raised.value)


def test_a_value_that_contains_itself_is_refused() -> None:
    with pytest.raises(ValueError, match="contains itself"):
        plain_json(cycle())


def test_the_fields_of_a_model_that_is_not_json_say_why() -> None:
    with pytest.raises(ValueError, match=r"trip.ticket\n +bytes are not JSON"):
        plain_json({"trip": Trip(to="Rome", ticket=b"\xff")})


@pytest.mark.parametrize("delta", [{"seat": (1, 2)}, MappingProxyType({"seat": (1, 2)}), Taken((1, 2))])
def test_metadata_and_deltas_are_converted_too(delta: object) -> None:
    body = {"session_id": "s1", "event": {"type": "note", "metadata": Seat(1)}, "state_delta": delta}

    append = AppendEvent.model_validate(body)

    assert append.event.metadata == {"row": 1, "side": None}
    assert append.state_delta is not None
    assert append.state_delta["seat"] == [1, 2]


def test_values_that_are_json_already_are_left_alone() -> None:
    value = {"text": "é", "number": 2**70, "list": [None, True, 0.5]}

    assert plain_json(value) == value
    assert plain_json(date(2026, 1, 31)) == "2026-01-31"
