"""Bodies are read strictly, and an error names the field and its value."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, JsonValue

from hivemem_contracts.agents.requests import GetAgent
from hivemem_contracts.artifacts.requests import BeginUpload
from hivemem_contracts.errors import InvalidRequest, TooLarge
from hivemem_contracts.json_limits import INTEGER_MAXIMUM, INTEGER_MINIMUM
from hivemem_contracts.limits import JSON_DEPTH, MESSAGE_BYTES
from hivemem_contracts.model import ReplyBody, RequestBody, decode_body
from hivemem_contracts.sessions.models import Machine, Transition
from hivemem_contracts.sessions.requests import (
    AppendEvent,
    AppendEvents,
    CreateSession,
    GetSession,
    ListSessions,
    PutMachine,
    SetState,
)
from hivemem_contracts.vectors.requests import Recall

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(min_value=INTEGER_MINIMUM, max_value=INTEGER_MAXIMUM)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def set_state(value: str) -> bytes:
    return b'{"session_id": "s", "key": "k", "value": %s}' % value.encode("utf-8")


def refused(model: type[BaseModel], data: bytes) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        decode_body(model, data)
    return caught.value


@given(json_values)
def test_any_portable_json_comes_back_as_it_was_sent(value: JsonValue) -> None:
    body = decode_body(SetState, json.dumps({"session_id": "s", "key": "k", "value": value}).encode())
    assert body.value == value
    assert decode_body(SetState, body.model_dump_json().encode()) == body


def test_an_empty_body_is_an_empty_object() -> None:
    assert decode_body(ListSessions, b"") == ListSessions()
    assert refused(GetSession, b"").context == {"field": "session_id", "problem": "missing"}


@pytest.mark.parametrize(
    "data", [b"{", b"nope", b"{'session_id': 1}", b'{"session_id": "s",}', b"\xff", b'{"a": "\xc3"}', b"{} {}", b"\x00"]
)
def test_what_is_not_json_is_refused(data: bytes) -> None:
    assert refused(GetSession, data).context == {"field": "body", "problem": "json_invalid"}


@pytest.mark.parametrize("data", [b"null", b"[]", b'"s"', b"5", b"true"])
def test_a_body_is_an_object(data: bytes) -> None:
    error = refused(GetSession, data)
    assert error.context["field"] == "body"
    assert error.detail.endswith(f"got {data.decode()}")


@pytest.mark.parametrize(
    ("model", "data", "field", "value"),
    [
        (GetSession, b'{"session_id": "s", "sesion": 7}', "sesion", "7"),
        (AppendEvent, b'{"session_id": "s", "event": {"type": "t", "kind": "x"}}', "event.kind", '"x"'),
        (AppendEvents, b'{"appends": [{"session_id": "s", "event": {"type": 5}}]}', "appends.0.event.type", "5"),
        (AppendEvents, b'{"appends": []}', "appends", "[]"),
        (GetSession, b'{"session_id": 5}', "session_id", "5"),
        (GetSession, b'{"session_id": " s"}', "session_id", '" s"'),
        (GetSession, b'{"session_id": "s", "events": "5"}', "events", '"5"'),
        (GetSession, b'{"session_id": "s", "events": 5.0}', "events", "5.0"),
        (GetSession, b'{"session_id": "s", "events": true}', "events", "true"),
        (GetSession, b'{"session_id": "s", "events": 1001}', "events", "1001"),
        (GetSession, b'{"session_id": "s", "at": 1767225600}', "at", "1767225600"),
        (GetSession, b'{"session_id": "s", "at": "2026-01-31T09:30:00"}', "at", '"2026-01-31T09:30:00"'),
        (GetSession, b'{"session_id": "s", "at": "0001-01-01T00:00:00+10:00"}', "at", '"0001-01-01T00:00:00+10:00"'),
        (ListSessions, b'{"active": "yes"}', "active", '"yes"'),
        (ListSessions, b'{"status": "asleep"}', "status", '"asleep"'),
        (
            CreateSession,
            b'{"app_name": "a", "user_id": "u", "initial_state": {"a\\u0000": 1}}',
            "initial_state.a\\u0000",
            '"a',
        ),
        (CreateSession, b'{"app_name": "a", "user_id": "u", "machine": 7}', "machine", "7"),
        (CreateSession, b'{"app_name": "a", "user_id": "u", "machine": " m"}', "machine", '" m"'),
        (
            CreateSession,
            b'{"app_name": "a", "user_id": "u", "machine": {"initial": 5, "states": ["x"], "transitions": []}}',
            "machine.initial",
            "5",
        ),
        (
            PutMachine,
            b'{"name": "m", "definition": {"initial": "x", "states": ["x"], "transitions": [{"from": 1}]}}',
            "definition.transitions.0.from",
            "1",
        ),
    ],
)
def test_the_first_wrong_field_is_named_with_its_value(
    model: type[BaseModel], data: bytes, field: str, value: str
) -> None:
    error = refused(model, data)
    assert error.context["field"] == field
    assert error.detail.startswith(f"{field}: ")
    assert f", got {value}" in error.detail


@pytest.mark.parametrize(
    ("model", "data", "field"),
    [
        (AppendEvent, b'{"session_id": "s"}', "event"),
        (AppendEvent, b'{"session_id": "s", "event": {}}', "event.type"),
        (CreateSession, b'{"app_name": "a", "user_id": "u", "machine": {}}', "machine.initial"),
    ],
)
def test_a_missing_field_is_named(model: type[BaseModel], data: bytes, field: str) -> None:
    assert refused(model, data).context == {"field": field, "problem": "missing"}


def test_what_an_error_shows_is_short_and_printable() -> None:
    error = refused(ListSessions, json.dumps({"x\r\n" * 100_000: "y" * 100_000}).encode())
    assert len(error.detail) < 2_000
    assert error.detail.isprintable()
    assert error.context["field"].isprintable()


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ("NaN", "value"),
        ("-Infinity", "value"),
        ("1e309", "value"),
        ("-1E+0400", "value"),
        ("123456789012345678.5e299", "value"),
        ("1" + "0" * 400 + ".0", "value"),
        ("[0, Infinity]", "value.1"),
        ('{"a": [{"b": NaN}]}', "value.a.0.b"),
    ],
)
def test_a_number_that_is_not_finite_is_refused(value: str, field: str) -> None:
    assert refused(SetState, set_state(value)).context == {"field": field, "problem": "finite_number"}


@pytest.mark.parametrize(
    ("value", "field"),
    [
        (str(INTEGER_MAXIMUM + 1), "value"),
        (str(INTEGER_MINIMUM - 1), "value"),
        (str(2**64), "value"),
        ("1" + "0" * 300, "value"),
        (f'{{"a": [1, {2**63}]}}', "value.a.1"),
    ],
)
def test_an_integer_past_64_bits_is_refused(value: str, field: str) -> None:
    assert refused(SetState, set_state(value)).context == {"field": field, "problem": "integer_range"}


@given(st.integers(min_value=-(2**70), max_value=2**70))
def test_the_bounds_of_an_integer_are_exact(value: int) -> None:
    if INTEGER_MINIMUM <= value <= INTEGER_MAXIMUM:
        assert decode_body(SetState, set_state(f"[{value}]")).value == [value]
    else:
        assert refused(SetState, set_state(f"[{value}]")).context["field"] == "value.0"


def test_a_declared_integer_has_64_bits_too() -> None:
    error = refused(GetSession, b'{"session_id": "s", "revision": 18446744073709551616}')
    assert error.context["field"] == "revision"


@pytest.mark.parametrize(
    "value", ['"NaN"', '"1e999"', '"12345678901234567890"', "1e308", "1.2345678901234567890123", "1e-400"]
)
def test_what_only_looks_suspicious_passes(value: str) -> None:
    assert decode_body(SetState, set_state(value)).value == json.loads(value)


@pytest.mark.parametrize("value", ['"\\ud800"', '"\\udc1d\\ud83d"', '{"\\ud800": 1}', '"\\ud83d x"'])
def test_half_of_a_surrogate_pair_is_refused(value: str) -> None:
    assert refused(SetState, set_state(value)).context == {"field": "body", "problem": "json_invalid"}


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_nesting_is_bounded_exactly(opening: str, closing: str) -> None:
    def nested(levels: int) -> bytes:
        return set_state(opening * levels + "1" + closing * levels)

    decode_body(SetState, nested(JSON_DEPTH - 1))
    assert refused(SetState, nested(JSON_DEPTH)).context["problem"] == "nesting"
    assert refused(SetState, nested(100_000 // len(opening))).context["problem"] == "json_invalid"


def test_brackets_side_by_side_are_no_nesting() -> None:
    value: list[JsonValue] = [[{}] for _ in range(JSON_DEPTH * 3)]
    assert decode_body(SetState, set_state(json.dumps(value))).value == value
    assert decode_body(SetState, set_state(json.dumps("[{" * JSON_DEPTH))).value == "[{" * JSON_DEPTH


@given(st.lists(st.text(alphabet='"\\[]{}a', max_size=5), min_size=1, max_size=9), st.booleans())
def test_no_text_hides_a_nesting_or_looks_like_one(texts: list[str], too_deep: bool) -> None:
    value: JsonValue = 1
    for level in range(JSON_DEPTH - 1 + too_deep):
        text = texts[level % len(texts)]
        value = {text: value, text + "]": text} if level % 2 else [text, value, text]
    body = set_state(json.dumps(value))
    if too_deep:
        assert refused(SetState, body).context["problem"] == "nesting"
    else:
        assert decode_body(SetState, body).value == value


@pytest.mark.parametrize(
    ("model", "body", "detail"),
    [
        (GetSession, {"session_id": " a"}, "session_id: no control characters here, and no space at either end"),
        (GetAgent, {"agent_id": "a:b"}, "agent_id: no ':' and no control characters here, and no space at either end"),
        (Recall, {"query": "\u2003"}, "query: a text of white space alone"),
        (BeginUpload, {"session_id": "s", "name": "n", "sha256": "zz"}, "sha256: this does not match ^[0-9a-f]{64}$"),
    ],
)
def test_a_text_of_another_form_is_refused_in_its_own_words(model: type[BaseModel], body: Any, detail: str) -> None:
    assert refused(model, json.dumps(body).encode()).detail.startswith(f"{detail}, got ")


def test_an_unknown_field_names_the_nearest_known_one_even_if_that_is_missing() -> None:
    inner = refused(AppendEvents, b'{"appends": [{"session_id": "s", "event": {"type": "t", "contnt": 1}}]}')
    assert inner.detail == "appends.0.event.contnt: no such field (did you mean 'content'?), got 1"
    required = refused(GetSession, b'{"sesion_id": "s"}')
    assert required.detail == "sesion_id: no such field (did you mean 'session_id'?), got \"s\""
    assert required.context == {"field": "sesion_id", "problem": "extra_forbidden"}


def test_a_body_over_the_limit_is_refused_unread() -> None:
    padding = MESSAGE_BYTES - len(set_state("1"))
    decode_body(SetState, set_state("1") + b" " * padding)
    with pytest.raises(TooLarge) as caught:
        decode_body(SetState, set_state("1") + b" " * (padding + 1))
    assert caught.value.context == {"field": "body", "limit": MESSAGE_BYTES, "actual": MESSAGE_BYTES + 1}


def test_a_request_can_not_be_made_with_a_number_that_is_not_finite() -> None:
    with pytest.raises(ValueError, match="finite"):
        SetState(session_id="s", key="k", value=[float("nan")])


def test_python_names_what_is_a_word_of_python_and_the_wire_does_not_see_it() -> None:
    arrow = Transition(source="a", event="go", target="b")
    machine = Machine(initial="a", states=["a", "b"], transitions=[arrow])
    sent = json.loads(PutMachine(name="m", definition=machine).model_dump_json())
    assert sent["definition"]["transitions"] == [{"from": "a", "event": "go", "to": "b", "when": None}]
    assert decode_body(PutMachine, json.dumps(sent).encode()).definition == machine
    sent["definition"]["transitions"] = [{"source": "a", "event": "go", "target": "b"}]
    assert refused(PutMachine, json.dumps(sent).encode()).context["field"] == "definition.transitions.0.from"


def test_a_moment_is_read_to_the_microsecond() -> None:
    body = decode_body(GetSession, b'{"session_id": "s", "at": "2026-01-31T11:30:00.000001999+02:00"}')
    assert body.at == datetime(2026, 1, 31, 9, 30, 0, 1, tzinfo=UTC)


def test_a_reader_ignores_fields_of_a_newer_fleet() -> None:
    class Answer(ReplyBody):
        revision: int

    assert Answer.model_validate_json(b'{"revision": 3, "mood": "good"}') == Answer(revision=3)


def test_bodies_do_not_change() -> None:
    class Question(RequestBody):
        revision: int

    body: Any = Question(revision=3)
    with pytest.raises(ValueError, match="frozen"):
        body.revision = 4
