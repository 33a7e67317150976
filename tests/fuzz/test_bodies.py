"""In this process, any body is either parsed to its meaning or refused with the name of its field."""

from collections import Counter
from collections.abc import Iterable
from random import Random
from typing import Any, cast

import pytest
from pydantic import BaseModel
from pydantic_core import from_json

from hivemem_contracts.error_values import field_path
from hivemem_contracts.errors import HiveError
from hivemem_contracts.limits import EXPRESSION_BYTES, EXPRESSION_STEPS
from hivemem_contracts.model import decode_body
from hivemem_runtime.expressions.budget import BudgetExceeded, EvaluationFailed, Meter
from hivemem_runtime.expressions.evaluation import Expression
from hivemem_runtime.service import body_digest

from .bodies import Known, anything
from .cases import OPERATIONS, Cases, dumped
from .expressions import expression, state_to_guard
from .numbers import CASES, CODEC_SHARE
from .odd import odd_bytes
from .refusals import refused

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300 + CASES // 100)]

COUNT = int(CASES * CODEC_SHARE)
KNOWN = Known(cursors={"sessions.list": ["c"]})


def body(cases: Cases, number: int, random: Random) -> bytes:
    if number % 3:
        return cases.mutated_body(number, random)
    return odd_bytes(dumped(cases.valid_body(number, random)), random)


def test_any_body_is_a_request_or_refused_by_its_field(seed: int) -> None:
    """An accepted body is the same request when it is written and read again."""
    cases, taken = Cases(seed, KNOWN), 0
    for number in range(2 * COUNT):
        model, data = cases.operation(number).request, body(cases, number, Random(seed << 32 | number))
        try:
            error = refused(decode_body, model, data)
            if error is not None:
                assert names_a_field(error, model, data), f"not a field of it: {error.context}"
                continue
            request = decode_body(model, data)
            again = decode_body(model, request.model_dump_json(exclude_unset=True).encode())
            assert body_digest(again) == body_digest(request)
            taken += 1
        except Exception as fault:
            raise AssertionError(f"case {number} of seed {seed}, {cases.operation(number)}: {data[:500]!r}") from fault
    assert taken > COUNT // 20


def names_a_field(error: HiveError, model: type[BaseModel], data: bytes) -> bool:
    """Return whether the field was sent or is declared. If the body is no object, the field is `body`."""
    try:
        sent: Any = from_json(data)
    except ValueError:
        sent = None
    fields = (field.validation_alias or name for name, field in model.model_fields.items())
    names = [*fields, *(cast("Iterable[str]", sent) if isinstance(sent, dict) else ())]
    named = str(error.context["field"])
    return named == "body" or any(named.startswith(field_path((str(name),))[:100]) for name in names)


def test_the_generated_bodies_of_every_operation_are_mostly_valid(seed: int) -> None:
    """This covers new operations, beyond their refusals, as soon as they are declared."""
    cases = Cases(seed, KNOWN)
    for start, operation in enumerate(OPERATIONS):
        numbers = range(start, start + 50 * len(OPERATIONS), len(OPERATIONS))
        bodies = [dumped(cases.valid_body(number, Random(seed << 32 | number))) for number in numbers]
        errors = [error for data in bodies if (error := refused(decode_body, operation.request, data))]
        assert len(errors) < len(bodies) // 2, f"{operation}: {errors[:3]}"


def test_any_guard_ends_within_its_budget(seed: int) -> None:
    """The cost of a guard is counted, not timed, so the same guard costs the same on every machine."""
    random, ended = Random(seed), Counter[str]()
    for _ in range(COUNT // 4):
        text = expression(random)
        variables = {"state": state_to_guard(random), "event": {"type": "go", "content": anything(random)}}
        try:
            Expression(text, ("state", "event")).evaluate(variables, Meter(EXPRESSION_STEPS, EXPRESSION_BYTES))
            ended["evaluated"] += 1
        except (ValueError, EvaluationFailed, BudgetExceeded) as error:
            ended[type(error).__name__] += 1
        except Exception as fault:
            raise AssertionError(f"seed {seed}: {text!r}") from fault
    assert min(ended[end] for end in ("evaluated", "EvaluationFailed", "BudgetExceeded")) > 0, ended
