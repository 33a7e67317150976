"""Values over their limit are refused with the field, the limit and the actual size."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

from hivemem_contracts.errors import TooLarge
from hivemem_contracts.limits import MACHINE_BYTES, VALUE_BYTES
from hivemem_contracts.model import decode_body
from hivemem_contracts.sessions.requests import AppendEvent, AppendEvents, CreateSession, PutMachine, SetState


def text_of(size: int) -> str:
    """Return a text that takes `size` bytes as JSON, with its quotes."""
    return "x" * (size - 2)


def append(**fields: Any) -> dict[str, Any]:
    delta = fields.pop("state_delta", None)
    return {"session_id": "s", "event": {"type": "t", **fields}, "state_delta": delta}


def create(**fields: Any) -> dict[str, Any]:
    return {"app_name": "a", "user_id": "u", **fields}


def machine_of(size: int) -> dict[str, Any]:
    """Return a definition that takes `size` bytes as JSON, once its defaults are filled in."""

    def definition(guard: int) -> dict[str, Any]:
        arrows = [{"from": "a", "event": f"e{place:03}", "to": "a", "when": "w" * 1_010} for place in range(30)]
        arrows.append({"from": "a", "event": "last", "to": "a", "when": "w" * guard})
        return {"initial": "a", "states": ["a"], "transitions": arrows, "open": False}

    missing = size - len(json.dumps(definition(1), separators=(",", ":")))
    return definition(missing + 1)


CASES: list[tuple[type[BaseModel], Callable[[int], dict[str, Any]], str, int]] = [
    (AppendEvent, lambda size: append(content=text_of(size)), "event.content", VALUE_BYTES),
    (AppendEvent, lambda size: append(metadata={"k": text_of(size - 6)}), "event.metadata", VALUE_BYTES),
    (AppendEvent, lambda size: append(state_delta={"a": 1, "k": text_of(size)}), "state_delta.k", VALUE_BYTES),
    (
        AppendEvents,
        lambda size: {"appends": [append(), append(content=text_of(size))]},
        "appends.1.event.content",
        VALUE_BYTES,
    ),
    (SetState, lambda size: {"session_id": "s", "key": "k", "value": text_of(size)}, "value", VALUE_BYTES),
    (CreateSession, lambda size: create(initial_state={"user:k": text_of(size)}), "initial_state.user:k", VALUE_BYTES),
    (CreateSession, lambda size: create(metadata={"k": text_of(size - 6)}), "metadata", VALUE_BYTES),
    (CreateSession, lambda size: create(machine=machine_of(size)), "machine", MACHINE_BYTES),
    (PutMachine, lambda size: {"name": "m", "definition": machine_of(size)}, "definition", MACHINE_BYTES),
]


@pytest.mark.parametrize(
    ("model", "body", "field", "limit"), CASES, ids=[f"{case[0].__name__}-{case[2]}" for case in CASES]
)
def test_a_value_of_the_limit_passes_and_one_byte_more_is_refused(
    model: type[BaseModel], body: Callable[[int], dict[str, Any]], field: str, limit: int
) -> None:
    decode_body(model, json.dumps(body(limit)).encode())
    with pytest.raises(TooLarge) as caught:
        decode_body(model, json.dumps(body(limit + 1)).encode())
    assert caught.value.context == {"field": field, "limit": limit, "actual": limit + 1}


def test_bytes_are_counted_not_characters() -> None:
    body = {"session_id": "s", "key": "k", "value": "é" * (VALUE_BYTES // 2)}
    with pytest.raises(TooLarge) as caught:
        decode_body(SetState, json.dumps(body).encode())
    assert caught.value.context["actual"] == VALUE_BYTES + 2


def test_values_are_measured_one_by_one() -> None:
    delta = {f"k{place}": text_of(VALUE_BYTES - 1_000) for place in range(3)}
    assert decode_body(AppendEvent, json.dumps(append(state_delta=delta)).encode()).state_delta == delta


def test_white_space_of_the_sender_does_not_count() -> None:
    value = list(range(40_000))
    body = json.dumps({"session_id": "s", "key": "k", "value": value}, indent=4).encode()
    assert len(body) > VALUE_BYTES
    assert decode_body(SetState, body).value == value
