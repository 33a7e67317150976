"""The errors on the wire: their codes are the contract."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hivemem_contracts.errors import ALL_ERRORS, HiveError, Internal, NotFound, error_from_body

CODES = {
    40001: ("InvalidRequest", False),
    40301: ("Forbidden", False),
    40401: ("NotFound", False),
    40901: ("AlreadyExists", False),
    40902: ("RevisionConflict", False),
    40903: ("IllegalTransition", False),
    40904: ("LeaseHeld", False),
    40906: ("IdempotencyConflict", False),
    41301: ("TooLarge", False),
    42901: ("Overloaded", True),
    50301: ("Unavailable", True),
    50001: ("Internal", False),
}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
contexts = st.dictionaries(st.text(), json_values, max_size=4)


def test_the_codes_are_those_of_the_contract() -> None:
    assert {error.code: (error.__name__, error.retryable) for error in ALL_ERRORS} == CODES


def test_every_error_has_a_code_of_its_own_and_is_listed() -> None:
    assert len({error.code for error in ALL_ERRORS}) == len(ALL_ERRORS)
    ours = {error for error in HiveError.__subclasses__() if error.__module__ == HiveError.__module__}
    assert ours == set(ALL_ERRORS)


@given(st.sampled_from(ALL_ERRORS), st.text(), contexts)
def test_an_error_comes_back_from_its_body(kind: type[HiveError], detail: str, context: dict[str, Any]) -> None:
    error = kind(detail)
    error.context = context
    read = error_from_body(json.loads(json.dumps(error.body())))
    assert type(read) is kind
    assert (read.detail, read.context, read.retryable, str(read)) == (detail, context, kind.retryable, detail)


@given(st.integers().filter(lambda code: code not in CODES), st.text(), st.booleans(), contexts)
def test_an_error_of_a_newer_fleet_keeps_what_it_says(
    code: int, detail: str, retryable: bool, context: dict[str, Any]
) -> None:
    body = {"error": {"code": code, "name": "NewError", "detail": detail, "retryable": retryable, "context": context}}
    read = error_from_body(body)
    assert type(read) is HiveError
    assert (read.code, read.name, read.retryable) == (code, "NewError", retryable)
    assert read.body() == body
    assert (HiveError.code, HiveError.retryable) == (0, False)


def test_a_newer_fleet_may_say_more_about_a_known_error() -> None:
    read = error_from_body({"error": {"code": 40401, "detail": "gone", "hint": "look elsewhere"}})
    assert isinstance(read, NotFound)
    assert read.context == {}


@pytest.mark.parametrize(
    "body", [{}, {"error": None}, {"error": "no"}, {"error": {}}, {"error": {"code": "40401"}}, {"error": []}]
)
def test_a_body_without_a_code_is_an_internal_error(body: dict[str, Any]) -> None:
    assert isinstance(error_from_body(body), Internal)


@pytest.mark.parametrize("context", [None, [], "no", 5])
def test_a_context_that_is_no_object_is_empty(context: object) -> None:
    assert error_from_body({"error": {"code": 40401, "detail": "gone", "context": context}}).context == {}
