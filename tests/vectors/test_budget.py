from typing import Any

import orjson
import pytest

from hivemem_runtime.tokens import estimated_tokens
from hivemem_vectors.recall.decisions.budget import Budget, tokens_up_to


def item(value: Any, text: str | None = None) -> dict[str, Any]:
    return {"value": value, "text": text}


def values(budget: Budget) -> list[Any]:
    return [line["value"] for line in orjson.loads(orjson.dumps(budget.lines))]


def filled(budget: Budget, *items: dict[str, Any]) -> Budget:
    for each in items:
        if budget.missing:
            budget.add(each)
    return budget


def test_so_many_items_are_taken_and_no_more() -> None:
    budget = filled(Budget(2), item(1), item(2), item(3))

    assert values(budget) == [1, 2]
    assert (budget.missing, budget.cut) == (0, None)


def test_the_first_item_may_have_any_size_and_the_others_what_is_left() -> None:
    budget = filled(Budget(9, max_bytes=100), item("x" * 200), item("y"))
    assert (values(budget), budget.cut, budget.missing) == (["x" * 200], "bytes", 0)

    budget = filled(Budget(9, max_bytes=100), item("x" * 20), item("y" * 20), item("z" * 20))
    assert (values(budget), budget.cut) == (["x" * 20, "y" * 20], "bytes")


def test_tokens_are_those_of_the_value_or_where_there_is_none_of_the_text() -> None:
    text = "one two three four five"

    assert values(filled(Budget(9, max_tokens=5), item(None, text))) == [None]
    assert values(filled(Budget(9, max_tokens=4), item(None, text))) == []
    assert values(filled(Budget(9, max_tokens=4), item(1, text))) == [1]
    assert values(filled(Budget(9, max_tokens=4), item(None))) == [None]


def test_the_first_that_does_not_fit_any_more_ends_it_and_what_never_fits_does_not() -> None:
    three, nine = "one two three", "one two three four five six seven eight nine"
    budget = filled(Budget(9, max_tokens=8), item(None, nine), item(None, three), item(None, three))
    assert (values(budget), budget.cut, budget.missing) == ([None, None], "tokens", 7)

    budget = filled(budget, item(None, three), item(None, "one"))
    assert (values(budget), budget.missing) == ([None, None], 0)


@pytest.mark.parametrize("text", ["", "one", "word " * 10_000, "x" * 30_000])
def test_a_long_text_is_counted_as_far_as_needed(text: str) -> None:
    exact = estimated_tokens(text)

    assert tokens_up_to(text, 10**9) == pytest.approx(exact, rel=0.01)
    assert (tokens_up_to(text, 100) > 100) == (exact > 100)
    assert tokens_up_to(text, 100) <= 3_000
